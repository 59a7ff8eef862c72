"""Neural network functions: activations, attention, initializers."""
