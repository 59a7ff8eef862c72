// Operations on the elements of arrays, one after the other for a part of the arrays at a time.

#ifndef JAXLIB_KERNELS_ELEMENTWISE_H_
#define JAXLIB_KERNELS_ELEMENTWISE_H_

#include <cstddef>
#include <span>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/vector_elementwise.h"

namespace jaxlib_ext {

// An array, or a scalar, which stands for as many equal elements.
struct ElementwiseOperand {
  const void* data;
  bool scalar;
};

// What one operation is applied to: operands by their number, or results of earlier steps, whose numbers follow.
struct ElementwiseStep {
  ElementwiseOperation operation;
  size_t first;
  size_t second;  // not used by operations of one number
};

inline constexpr size_t kMaxElementwiseOperands = 8;
inline constexpr size_t kMaxElementwiseSteps = 8;

// Writes the results of the last step, on the calling thread. The type is float32 or float64; there are at least one
// step, and no more operands and steps than the above.
void Elementwise(ElementType type, std::span<const ElementwiseOperand> operands,
                 std::span<const ElementwiseStep> steps, size_t size, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_ELEMENTWISE_H_
