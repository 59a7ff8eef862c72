// Sorting of arrays along a dimension.

#ifndef JAXLIB_KERNELS_SORT_H_
#define JAXLIB_KERNELS_SORT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/lanes.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// An array to sort and the memory for the result, which does not overlap with any operand.
struct SortOperand {
  ElementType type;
  const void* in;
  void* out;
};

// Positions are held in 32 bits.
inline constexpr size_t kMaxSortSize = std::numeric_limits<uint32_t>::max();

// Sorts `operands` along the dimension that `shape` singles out, of at most `kMaxSortSize` elements, by the
// first `num_keys` of them: the first counts most, and all are put in the same order. Equal keys keep theirs.
//
// Throws std::bad_alloc.
void Sort(TaskRunner& runner, const LaneShape& shape, std::span<const SortOperand> operands,
          size_t num_keys);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SORT_H_
