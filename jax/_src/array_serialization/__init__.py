"""Checkpoints: sharded arrays and pytrees of them in files, written and read with tensorstore."""
