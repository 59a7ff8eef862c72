"""`jax.export`: programs that outlive the process that made them.

`_export` has `export` and `Exported`, `calling` the primitive that calls an exported program,
`checks` what is refused, `shardings` and `derivatives` what they say, `serialization` the bytes,
`versions` those of the format, and `shape_poly` symbolic dimensions.
"""
