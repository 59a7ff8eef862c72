"""MLIR's dialects, each a module of operations."""
