// Products of a matrix whose elements have coordinates and dense ones.

#ifndef JAXLIB_KERNELS_COO_H_
#define JAXLIB_KERNELS_COO_H_

#include <cstddef>

#include "jaxlib/kernels/factors.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// How the indices of elements lie in memory, and what is read out of bounds.
enum class CooFormat {
  kBcoo,  // each row's before the column's; zeros
  kCoo,   // rows and columns each by themselves; the first or last row of what is multiplied
};

struct CooMatrix : SparseMatrix {
  CooFormat format;
  const void* rows;
  const void* columns;  // where it is by itself
};

// Writes the product of `matrix`, or of its transpose, and `dense`, which has `width` columns and is
// in row-major order, as `out` is. Sums are those of the elements in order where they are sorted by
// rows, or by columns to transpose; else those of up to four parts of them. Results do not depend on
// the number of threads.
//
// Throws std::bad_alloc.
void CooProduct(TaskRunner& runner, const CooMatrix& matrix, bool transpose, const void* dense,
                size_t width, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_COO_H_
