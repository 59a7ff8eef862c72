"""Macros for C++: libraries of a source and its header, and tests.

| macro | makes |
| --- | --- |
| `native_library` | a library of `<name>.cc` and `<name>.h` |
| `native_test` | a test of GoogleTest |
"""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
]

def native_library(name, source = None, copts = WARNINGS, **kwargs):
    """A library of a source and its header.

    Args:
      name: of the target.
      source: of the files, without `.cc` and `.h`; `name` by default.
      copts: flags of the compiler.
      **kwargs: attributes of `cc_library`.
    """
    source = source or name
    cc_library(
        name = name,
        srcs = [source + ".cc"],
        hdrs = [source + ".h"],
        copts = copts,
        **kwargs
    )

def native_test(name, source = None, deps = None, **kwargs):
    """A test, linked statically: handlers are no symbols of shared libraries, and Zig's C++ library is static.

    Args:
      name: of the target.
      source: its file, without `.cc`; `name` by default.
      deps: the libraries besides GoogleTest.
      **kwargs: attributes of `cc_test`.
    """
    cc_test(
        name = name,
        srcs = [(source or name) + ".cc"],
        copts = WARNINGS,
        linkstatic = True,
        deps = (deps or []) + ["@googletest//:gtest_main"],
        **kwargs
    )
