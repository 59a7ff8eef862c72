// How threads share sums of products.

#ifndef JAXLIB_KERNELS_SCATTERED_SUMS_H_
#define JAXLIB_KERNELS_SCATTERED_SUMS_H_

#include <algorithm>
#include <cstddef>

#include "jaxlib/kernels/parallel.h"
#include "jaxlib/kernels/workspace.h"

namespace jaxlib_ext {

// A thread gets at least so many products of elements.
inline constexpr size_t kProductGrain = 1 << 14;
// Sums in any places are added up in at most so many parts.
inline constexpr size_t kMaxParts = 4;
// Otherwise each thread gets about so many parts: fewer where it is held up by other programs.
inline constexpr size_t kPartsOfThread = 4;

// In how many parts to compute so many products, where parts have results of their own.
inline size_t NumParts(const TaskRunner& runner, size_t products) {
  const size_t threads = runner.num_threads();
  return threads <= 1 ? 1 : std::clamp<size_t>(products / kProductGrain, 1, kPartsOfThread * threads);
}

// Adds the products of the elements of a matrix to `out`, `rows` rows of `width` zeros, where `add(begin, end, sums)`
// adds those of a range of elements to an array as large.
//
// Parts are added up in arrays of their own, which costs less than the products if it is to pay. How many there are
// depends on the sizes only, so that the result does not depend on the number of threads.
//
// Throws std::bad_alloc.
template <typename T, typename Add>
void AddInParts(TaskRunner& runner, size_t num_elements, size_t rows, size_t width, T* out,
                const Add& add) {
  if (rows == 0) return;
  const size_t size = rows * width;
  const size_t most = num_elements / (2 * rows);
  const size_t parts =
      std::clamp<size_t>(std::min(most, num_elements * width / kProductGrain), 1, kMaxParts);
  if (parts == 1) return add(size_t{0}, num_elements, out);
  Workspace workspace((parts - 1) * size * sizeof(T));
  T* const sums = workspace.Take<T>((parts - 1) * size);
  ParallelFor(runner, parts, [&](size_t, size_t part) {
    T* const to = part == 0 ? out : sums + (part - 1) * size;
    if (part != 0) std::fill_n(to, size, T{});
    add(num_elements * part / parts, num_elements * (part + 1) / parts, to);
  });
  ParallelRanges(runner, size, kProductGrain, [&](size_t begin, size_t end) {
    for (size_t part = 1; part < parts; ++part) {
      const T* more = sums + (part - 1) * size;
      for (size_t i = begin; i < end; ++i) out[i] += more[i];
    }
  });
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_SCATTERED_SUMS_H_
