#include "jaxlib/kernels/search_sorted.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "jaxlib/kernels/numbers.h"

namespace jaxlib_ext {
namespace {

constexpr size_t kParallelValues = 1 << 14;
constexpr size_t kMaxCells = 1 << 20;
// With more elements in a cell than this, on average, cells are not worth their memory.
constexpr size_t kMaxInCell = 8;
// So many values are bisected side by side.
constexpr size_t kBlock = 64;

template <typename T>
bool IsNan(T x) {
  return x != x;
}

// 1 if `x` is before `value`, else 0: less, or less or equal if `right`; NaNs come last. Without branches, which would be
// predicted badly.
template <bool right, typename T>
uint32_t Before(T x, T value) {
  if constexpr (right) return uint32_t{x <= value} | uint32_t{IsNan(value)};
  return uint32_t{x < value} | (uint32_t{IsNan(value)} & uint32_t{!IsNan(x)});
}

// For each of some values, the elements among which its place is still to be found.
struct Interval {
  uint32_t low;
  uint32_t size;
};

// Bisects all intervals, the largest of which has `most` elements, side by side: so no value waits for the memory that
// another one needs. They are halved and rounded down, as in `_bisect` of jax/_src/numpy/bisection.py.
template <bool right, typename T>
void Bisect(const T* sorted, size_t most, const T* values, Interval* intervals, size_t count) {
  for (; most != 0; most /= 2) {
    for (size_t i = 0; i < count; ++i) {
      const auto [low, size] = intervals[i];
      const uint32_t half = size / 2;
      // Where nothing is left, an element that is there is compared for nothing.
      const uint32_t none = size == 0;
      const uint32_t place = low + half - (none & (low != 0));
      const uint32_t above = (none ^ 1) & Before<right>(sorted[place], values[i]);
      intervals[i] = {low + ((0 - above) & (size - half)), half};
    }
  }
}

// Cuts the range of a sorted array into cells of one width. The number of the cell never decreases where the value
// increases, whatever the rounding: so a value is behind all elements of lower cells, and before those of higher ones.
template <typename T>
class Cells {
 public:
  using Float = std::conditional_t<std::is_same_v<T, float>, float, double>;

  Cells(const T* sorted, size_t size, size_t count)
      : first_(static_cast<Float>(sorted[0])),
        count_(static_cast<Float>(count)),
        scale_(count_ / (static_cast<Float>(sorted[size - 1]) - first_)) {}

  // Whether they are, and the last one has the last element.
  bool valid(T last) const {
    return std::isfinite(first_) && std::isnormal(scale_) && scale_ > 0 &&
           (*this)(last) + 1 == static_cast<size_t>(count_);
  }

  // Not of a NaN.
  size_t operator()(T value) const {
    const Float place = (static_cast<Float>(value) - first_) * scale_;
    return static_cast<size_t>(static_cast<int64_t>(std::min(std::max(place, Float{0}), count_ - 1)));
  }

 private:
  Float first_;
  Float count_;
  Float scale_;
};

template <typename T, bool right>
class Search {
 public:
  Search(const T* sorted, size_t size, const T* values, int32_t* places)
      : sorted_(sorted), size_(size), values_(values), places_(places) {}

  void Run(TaskRunner& runner, size_t num_values) const {
    const size_t count =
        std::min({std::bit_ceil(4 * size_), kMaxCells, std::bit_floor(num_values)});
    if (kMaxInCell * count >= size_ && IsSorted()) {
      const Cells<T> cells(sorted_, size_, count);
      if (cells.valid(sorted_[size_ - 1])) return InCells(runner, num_values, cells, count);
    }
    InBlocks(runner, num_values, size_, [&](T) { return Interval{0, static_cast<uint32_t>(size_)}; });
  }

 private:
  // Also whether there are no NaNs: none compares.
  bool IsSorted() const {
    uint32_t sorted{sorted_[0] == sorted_[0]};
    for (size_t i = 1; i < size_; ++i) sorted &= uint32_t{sorted_[i - 1] <= sorted_[i]};
    return sorted != 0;
  }

  // How many elements are in lower cells, and the first one that is not.
  struct Cell {
    int32_t start;
    T first;
  };

  void InCells(TaskRunner& runner, size_t num_values, const Cells<T>& cell_of, size_t count) const {
    std::vector<Cell> cells(count + 1);
    size_t most = 0;
    size_t next = 0;
    for (size_t c = 0; c < count; ++c) {
      const size_t start = next;
      while (next < size_ && cell_of(sorted_[next]) == c) ++next;
      cells[c] = {static_cast<int32_t>(start), sorted_[start]};
      most = std::max(most, next - start);
    }
    cells[count] = {static_cast<int32_t>(size_), T{}};
    if (most > 1) {
      return InBlocks(runner, num_values, most, [&](T value) {
        if (IsNan(value)) return Interval{static_cast<uint32_t>(size_), 0};
        const Cell* cell = cells.data() + cell_of(value);
        return Interval{static_cast<uint32_t>(cell[0].start),
                        static_cast<uint32_t>(cell[1].start - cell[0].start)};
      });
    }
    ParallelRanges(runner, num_values, kParallelValues, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const T value = values_[i];
        if (IsNan(value)) {
          places_[i] = static_cast<int32_t>(size_);
          continue;
        }
        const Cell& cell = cells[cell_of(value)];
        places_[i] = cell.start + (right ? cell.first <= value : cell.first < value);
      }
    });
  }

  template <typename IntervalOf>
  void InBlocks(TaskRunner& runner, size_t num_values, size_t most,
                const IntervalOf& interval_of) const {
    ParallelRanges(runner, num_values, kParallelValues, [&](size_t begin, size_t end) {
      Interval intervals[kBlock];
      for (size_t first = begin; first < end; first += kBlock) {
        const size_t count = std::min(kBlock, end - first);
        for (size_t i = 0; i < count; ++i) intervals[i] = interval_of(values_[first + i]);
        Bisect<right>(sorted_, most, values_ + first, intervals, count);
        for (size_t i = 0; i < count; ++i) {
          places_[first + i] = static_cast<int32_t>(intervals[i].low);
        }
      }
    });
  }

  const T* const sorted_;
  const size_t size_;
  const T* const values_;
  int32_t* const places_;
};

}  // namespace

void SearchSorted(TaskRunner& runner, ElementType type, bool right, const void* sorted, size_t size,
                  const void* values, size_t num_values, int32_t* places) {
  if (size == 0) {
    std::fill_n(places, num_values, 0);
    return;
  }
  VisitNumber(type, [&](auto number) {
    using T = decltype(number);
    const auto* from = static_cast<const T*>(sorted);
    const auto* what = static_cast<const T*>(values);
    if (right) {
      Search<T, true>(from, size, what, places).Run(runner, num_values);
    } else {
      Search<T, false>(from, size, what, places).Run(runner, num_values);
    }
  });
}

}  // namespace jaxlib_ext
