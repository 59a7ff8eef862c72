"""Checkpoints of sharded arrays; import the submodules explicitly. They need tensorstore."""
