// Finding the places of values in a sorted array.

#ifndef JAXLIB_KERNELS_SEARCH_SORTED_H_
#define JAXLIB_KERNELS_SEARCH_SORTED_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Places are int32.
inline constexpr size_t kMaxSearchSize = std::numeric_limits<int32_t>::max();

// Writes for each of `num_values` how many of the `size` elements of `sorted`, at most `kMaxSearchSize`, are less, or
// less or equal if `right`. NaNs are greater than any number, and equal. An array that is not sorted is bisected all the
// same, with the result of jnp.searchsorted. For types that VisitNumber takes.
//
// Throws std::bad_alloc.
void SearchSorted(TaskRunner& runner, ElementType type, bool right, const void* sorted, size_t size,
                  const void* values, size_t num_values, int32_t* places);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SEARCH_SORTED_H_
