// Operations on numbers with the vector instructions of the machine at hand.

#ifndef JAXLIB_KERNELS_VECTOR_ELEMENTWISE_H_
#define JAXLIB_KERNELS_VECTOR_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>

namespace jaxlib_ext {

// The values are part of the handler's interface.
enum class ElementwiseOperation : int64_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,  // of a NaN and a number, NaN; of zeros, the positive one
  kMinimum,
  kNegate,  // from here on of one number
  kAbsolute,
  kSquareRoot,
};

inline bool IsBinary(ElementwiseOperation operation) {
  return operation < ElementwiseOperation::kNegate;
}

// `b` is not read by operations of one number; `out` may be `a` or `b`.
void VectorElementwise(ElementwiseOperation operation, const float* a, const float* b, size_t size, float* out);
void VectorElementwise(ElementwiseOperation operation, const double* a, const double* b, size_t size, double* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_VECTOR_ELEMENTWISE_H_
