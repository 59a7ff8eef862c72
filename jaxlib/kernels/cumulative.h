// Partial sums, products, maxima and minima along a dimension.

#ifndef JAXLIB_KERNELS_CUMULATIVE_H_
#define JAXLIB_KERNELS_CUMULATIVE_H_

#include <cstdint>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/lanes.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

enum class Operation : int64_t { kSum, kProduct, kMaximum, kMinimum };

// Element `i` of a lane of `out` becomes the sum (or product, ...) of the elements up to `i` of that lane of
// `in`; with `reverse`, of those from `i` on. For types that VisitNumber takes.
//
// Integers wrap around. Sums and products of float32 are computed in double precision, then rounded: their
// relative errors are at most 2**-24 plus, for lanes of n elements, n * 2**-53 times the sum of the
// magnitudes divided by the magnitude of the sum. Maxima and minima are NaN from the first NaN on; 0.0 is
// greater than -0.0.
void Cumulate(TaskRunner& runner, ElementType type, Operation operation, bool reverse,
              const LaneShape& shape, const void* in, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_CUMULATIVE_H_
