"""A place that older code imports from; it has no names any more."""
