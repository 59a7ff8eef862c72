// The largest elements along the last dimension.

#ifndef JAXLIB_KERNELS_TOP_K_H_
#define JAXLIB_KERNELS_TOP_K_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Indices are int32.
inline constexpr size_t kMaxTopKSize = std::numeric_limits<int32_t>::max();

// Finds the `k` largest elements of each of `num_rows` rows of `size`, at least `k` and at most
// `kMaxTopKSize`, in descending order, and their indices; of equal ones the first comes first. Floats are in
// their total order: 0.0 is greater than -0.0, and a NaN is beyond infinity of its sign. Not for complex
// numbers.
//
// Throws std::bad_alloc.
void TopK(TaskRunner& runner, ElementType type, const void* in, size_t num_rows, size_t size, size_t k,
          void* values, int32_t* indices);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_TOP_K_H_
