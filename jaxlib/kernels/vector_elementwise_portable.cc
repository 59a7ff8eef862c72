// vector_elementwise.h where Highway is not at hand.

#include "jaxlib/kernels/vector_elementwise.h"

#include <cmath>
#include <cstddef>

namespace jaxlib_ext {
namespace {

// Products are zeros where subnormal numbers are: volatile, lest the compiler leave them out.
const volatile float kOne = 1;

template <typename T>
T Maximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const T ordered = a > b || (a == b && !std::signbit(a)) ? a : b;
  return ordered * static_cast<T>(kOne);
}

template <typename T>
T Applied(ElementwiseOperation operation, T a, T b) {
  switch (operation) {
    case ElementwiseOperation::kAdd:
      return a + b;
    case ElementwiseOperation::kSubtract:
      return a - b;
    case ElementwiseOperation::kMultiply:
      return a * b;
    case ElementwiseOperation::kDivide:
      return a / b;
    case ElementwiseOperation::kMaximum:
      return Maximum(a, b);
    case ElementwiseOperation::kMinimum:
      return std::isnan(a) || std::isnan(b) ? a + b : -Maximum(-a, -b);
    case ElementwiseOperation::kNegate:
      return -a;
    case ElementwiseOperation::kAbsolute:
      return std::abs(a);
    case ElementwiseOperation::kSquareRoot:
      return std::sqrt(a);
  }
  return a;
}

template <typename T>
void Apply(ElementwiseOperation operation, const T* a, const T* b, size_t size, T* out) {
  const bool binary = IsBinary(operation);
  for (size_t i = 0; i < size; ++i) out[i] = Applied(operation, a[i], binary ? b[i] : a[i]);
}

}  // namespace

void VectorElementwise(ElementwiseOperation operation, const float* a, const float* b, size_t size, float* out) {
  Apply(operation, a, b, size, out);
}

void VectorElementwise(ElementwiseOperation operation, const double* a, const double* b, size_t size, double* out) {
  Apply(operation, a, b, size, out);
}

}  // namespace jaxlib_ext
