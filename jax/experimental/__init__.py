"""What may still change: import the submodule that is needed."""
