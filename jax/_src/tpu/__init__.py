"""What TPUs compute with general operations, since they have no kernels for it."""
