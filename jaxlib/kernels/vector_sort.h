// Sorting with the vector instructions of the machine at hand.

#ifndef JAXLIB_KERNELS_VECTOR_SORT_H_
#define JAXLIB_KERNELS_VECTOR_SORT_H_

#include <cstddef>
#include <cstdint>

#include "jaxlib/kernels/wide.h"

namespace jaxlib_ext {

// Up to how many integers are sorted best with vector instructions: zero if there are none that help.
// Vectors of 16 bytes sort short arrays best; longer vectors, all.
size_t VectorSortLimit();

// Sorts in place, in ascending order. For at most `VectorSortLimit()` integers.
void VectorSort(uint32_t* data, size_t size);
void VectorSort(uint64_t* data, size_t size);
void VectorSort(Wide* data, size_t size);

// The name of the instruction set in use, such as "AVX2"; "none" if there is none.
const char* VectorSortTarget();

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_VECTOR_SORT_H_
