// Adding rows to rows of an array.

#ifndef JAXLIB_KERNELS_SCATTER_ADD_H_
#define JAXLIB_KERNELS_SCATTER_ADD_H_

#include <cstddef>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// What is added where. Types are those that VisitNumber takes; indices are integers.
struct RowUpdates {
  ElementType type;
  ElementType index_type;
  size_t num_rows;
  size_t width;
  size_t num_updates;
  const void* indices;
  const void* updates;
  bool scalar;  // `updates` is one number, which is added to all elements of the rows
  bool clip;    // an index out of bounds means the first or the last row
};

// Adds row `i` of the updates to row `indices[i]` of `out`; drops it if there is no such row. Integers wrap around.
//
// Few updates are added one after the other. Many updates of few rows are added in chunks, to zeros, and the sums
// of the chunks to `out`. The chunks depend on the sizes only, so results do not depend on the number of threads.
//
// Throws std::bad_alloc.
void ScatterAdd(TaskRunner& runner, const RowUpdates& what, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SCATTER_ADD_H_
