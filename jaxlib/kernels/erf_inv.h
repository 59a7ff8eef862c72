// The inverse of the error function.

#ifndef JAXLIB_KERNELS_ERF_INV_H_
#define JAXLIB_KERNELS_ERF_INV_H_

#include <cstddef>

#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Writes the inverses of `size` numbers: infinite at 1 and -1, NaN beyond. Errors are below 4 units of the last place.
void ErfInv(TaskRunner& runner, const float* in, size_t size, float* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_ERF_INV_H_
