"""Kept so that older code can import it; all of its names were removed."""
