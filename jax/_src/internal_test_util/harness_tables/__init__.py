"""The table of harnesses: each primitive, with types and parameters that tests of compilers try.

`harness` has what harnesses are made of. A module has a family of primitives, as functions that yield harnesses; `table`
has all. Names of cases, types, parameters, arguments and the order of the groups are the original's, so that suites find
the cases which they name.
"""
