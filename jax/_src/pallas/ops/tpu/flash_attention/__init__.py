"""Attention by blocks of all scores."""
