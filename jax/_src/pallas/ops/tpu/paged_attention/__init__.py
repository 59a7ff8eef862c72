"""Attention of one query for each sequence, whose keys and values are in pages."""
