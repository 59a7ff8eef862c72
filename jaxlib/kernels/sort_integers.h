// Sorting of unsigned integers: the work beneath every kernel here.

#ifndef JAXLIB_KERNELS_SORT_INTEGERS_H_
#define JAXLIB_KERNELS_SORT_INTEGERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "jaxlib/kernels/parallel.h"
#include "jaxlib/kernels/wide.h"

namespace jaxlib_ext {

// Sorts `data` in ascending order; `scratch` has room for as many. For uint8_t, uint16_t, uint32_t, uint64_t
// and Wide.
//
// `low_bit` and `high_bit` bound the bits that need to be compared: what lies above is zero, and what lies
// below is in ascending order to begin with. (So are positions below keys.)
template <typename Packed>
void SortIntegers(Packed* data, Packed* scratch, size_t size, unsigned low_bit = 0,
                  unsigned high_bit = kBits<Packed>);

// The same on the threads of `runner`, each of which makes what it sorts, and uses what it has sorted, while
// that is in its cache: `load(to, begin, end)` writes a range of the integers to `to + begin`, and
// `store(begin, end)` is called for each range of `data` that is ready, once.
template <typename Packed>
void SortIntegersInParallel(
    TaskRunner& runner, Packed* data, Packed* scratch, size_t size, unsigned low_bit,
    unsigned high_bit, const std::function<void(Packed* to, size_t begin, size_t end)>& load,
    const std::function<void(size_t begin, size_t end)>& store);

// Sorts pairs in the same way by their upper halves, of which only the `key_bits` lowest bits are not zero. Those
// with equal upper halves keep their order.
void SortPairsInParallel(
    TaskRunner& runner, uint64_t* data, uint64_t* scratch, size_t size, unsigned key_bits,
    const std::function<void(uint64_t* to, size_t begin, size_t end)>& load,
    const std::function<void(size_t begin, size_t end)>& store);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SORT_INTEGERS_H_
