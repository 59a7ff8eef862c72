"""Transfers of values to and from devices: concrete values, the primitive, public functions."""
