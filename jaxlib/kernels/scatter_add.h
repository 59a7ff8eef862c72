// Adding rows to rows of an array.

#ifndef JAXLIB_KERNELS_SCATTER_ADD_H_
#define JAXLIB_KERNELS_SCATTER_ADD_H_

#include <cstddef>

#include "jaxlib/kernels/element_type.h"

namespace jaxlib_ext {

// Adds row `i` of `num_updates` to row `indices[i]` of the `num_rows` of `out`, one after the other; drops it
// if there is no such row. For types that VisitNumber takes; indices are integers. Integers wrap around.
void ScatterAdd(ElementType type, ElementType index_type, size_t num_rows, size_t width,
                size_t num_updates, const void* indices, const void* updates, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SCATTER_ADD_H_
