// vector_sort.h where Highway is not at hand: everything is left to the other ways of sorting.

#include "jaxlib/kernels/vector_sort.h"

namespace jaxlib_ext {

size_t VectorSortLimit() { return 0; }
void VectorSort(uint32_t*, size_t) {}
void VectorSort(uint64_t*, size_t) {}
void VectorSort(Wide*, size_t) {}
const char* VectorSortTarget() { return "none"; }

}  // namespace jaxlib_ext
