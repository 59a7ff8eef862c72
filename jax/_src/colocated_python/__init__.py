"""Python functions and objects that live beside devices, possibly on other hosts."""
