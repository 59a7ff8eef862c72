"""Neural networks: activations, attention, initializers."""
