"""Moving values to devices and back: concrete values, the primitive, and the public functions."""
