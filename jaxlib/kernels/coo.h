// Products of a matrix whose elements have coordinates and dense ones.

#ifndef JAXLIB_KERNELS_COO_H_
#define JAXLIB_KERNELS_COO_H_

#include <cstddef>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Element `i` lies in row `indices[2 * i]` and column `indices[2 * i + 1]`. Indices are int32, or int64 where `wide`, and
// need not fit: a negative one counts from the end. Out of bounds there is padding: zeros are read, and nothing is written.
struct CooMatrix {
  ElementType type;  // one that VisitFactor takes
  bool wide;
  size_t num_elements;
  size_t num_rows;
  size_t num_columns;
  const void* data;
  const void* indices;
};

// Writes the product of `matrix`, or of its transpose, and `dense`, which has `width` columns and is
// in row-major order, as `out` is. Sums are those of the elements in order where they are sorted by rows, or by columns to
// transpose; else those of up to four parts of them. Results do not depend on the number of threads.
//
// Throws std::bad_alloc.
void CooProduct(TaskRunner& runner, const CooMatrix& matrix, bool transpose, const void* dense,
                size_t width, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_COO_H_
