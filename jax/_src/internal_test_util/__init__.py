"""Modules that tests of outside code import: examples of deprecated and of late names."""
