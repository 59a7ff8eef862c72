"""The interpreters of jaxprs, for libraries that add primitives or transformations."""
