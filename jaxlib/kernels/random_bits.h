// Random bits by Threefry-2x32.

#ifndef JAXLIB_KERNELS_RANDOM_BITS_H_
#define JAXLIB_KERNELS_RANDOM_BITS_H_

#include <cstddef>
#include <cstdint>

#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Encrypts the 64-bit numbers 0, 1, ... below `size` with each of `num_keys` keys of two words, by 20 rounds
// (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). What one becomes
// is an element: its two words are joined, the high one first, if elements have 8 bytes; otherwise their
// exclusive or is cut to `bytes`, which is 1, 2 or 4.
void ThreefryBits(TaskRunner& runner, const uint32_t* keys, size_t num_keys, size_t size,
                  size_t bytes, void* out);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_RANDOM_BITS_H_
