"""Fusing what surrounds a kernel into it."""
