// Determinants of small matrices.

#ifndef JAXLIB_KERNELS_DETERMINANTS_H_
#define JAXLIB_KERNELS_DETERMINANTS_H_

#include <cstddef>

#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Writes the determinants of `count` matrices of 3 rows and columns, by cofactors of the first row. A result does not
// depend on the matrix's place among the others.
void Determinants3x3(TaskRunner& runner, const float* matrices, size_t count, float* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_DETERMINANTS_H_
