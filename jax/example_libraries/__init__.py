"""Small libraries for examples: optimizers, layers. For projects, prefer libraries made for them."""
