// The inverse of the error function with the vector instructions of the machine at hand.

#ifndef JAXLIB_KERNELS_VECTOR_ERF_INV_H_
#define JAXLIB_KERNELS_VECTOR_ERF_INV_H_

#include <cstddef>

namespace jaxlib_ext {

// As ErfInv, on one thread.
void VectorErfInv(const float* in, size_t size, float* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_VECTOR_ERF_INV_H_
