// Products of a matrix in compressed sparse row format and dense ones.

#ifndef JAXLIB_KERNELS_CSR_H_
#define JAXLIB_KERNELS_CSR_H_

#include <cstddef>

#include "jaxlib/kernels/factors.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Element `i` lies in column `indices[i]` and in the row whose range of positions, from `indptr[row]` to
// `indptr[row + 1]`, has it. To read, an index beyond the end means the last row.
// Elements behind the last range are padding.
struct CsrMatrix : SparseMatrix {
  const void* indices;
  const void* indptr;
};

// Writes the product of `matrix`, or of its transpose, and `dense`, which has `width` columns and is
// in row-major order, as `out` is.
//
// Throws std::bad_alloc.
void CsrProduct(TaskRunner& runner, const CsrMatrix& matrix, bool transpose, const void* dense,
                size_t width, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_CSR_H_
