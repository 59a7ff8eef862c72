"""Attention of sequences with any numbers of queries, whose keys and values are in pages."""
