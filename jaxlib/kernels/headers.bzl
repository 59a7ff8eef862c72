"""A library's headers without its code."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _cc_headers_impl(ctx):
    return [CcInfo(compilation_context = ctx.attr.dep[CcInfo].compilation_context)]

cc_headers = rule(
    implementation = _cc_headers_impl,
    attrs = {
        "dep": attr.label(
            doc = "The library. Nothing of it is compiled or linked.",
            mandatory = True,
            providers = [CcInfo],
        ),
    },
    doc = "For libraries of which templates are enough, and whose own instances take minutes to compile.",
)
