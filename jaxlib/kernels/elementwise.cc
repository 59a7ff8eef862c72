#include "jaxlib/kernels/elementwise.h"

#include <algorithm>
#include <array>

namespace jaxlib_ext {
namespace {

// Values of a part of the arrays stay in the first cache.
constexpr size_t kPart = 256;

template <typename T>
void ElementwiseOf(std::span<const ElementwiseOperand> operands, std::span<const ElementwiseStep> steps,
                   size_t size, T* out) {
  alignas(64) T repeated[kMaxElementwiseOperands][kPart];
  alignas(64) T computed[kMaxElementwiseSteps][kPart];
  std::array<const T*, kMaxElementwiseOperands + kMaxElementwiseSteps> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].scalar) continue;
    std::fill_n(repeated[i], std::min(size, kPart), *static_cast<const T*>(operands[i].data));
    values[i] = repeated[i];
  }
  for (size_t begin = 0; begin < size; begin += kPart) {
    const size_t count = std::min(kPart, size - begin);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].scalar) values[i] = static_cast<const T*>(operands[i].data) + begin;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      T* const to = i + 1 == steps.size() ? out + begin : computed[i];
      VectorElementwise(steps[i].operation, values[steps[i].first], values[steps[i].second], count, to);
      values[operands.size() + i] = to;
    }
  }
}

}  // namespace

void Elementwise(ElementType type, std::span<const ElementwiseOperand> operands,
                 std::span<const ElementwiseStep> steps, size_t size, void* out) {
  if (type == ElementType::kFloat64) {
    ElementwiseOf(operands, steps, size, static_cast<double*>(out));
  } else {
    ElementwiseOf(operands, steps, size, static_cast<float*>(out));
  }
}

}  // namespace jaxlib_ext
