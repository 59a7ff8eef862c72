"""MLIR dialects, each with a module of its operations."""
