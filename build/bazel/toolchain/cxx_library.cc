// What is linked for the libraries that Zig then has: see BUILD.bazel.

namespace {
[[maybe_unused]] int number;
}  // namespace
