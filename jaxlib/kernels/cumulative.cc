#include "jaxlib/kernels/cumulative.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "jaxlib/kernels/numbers.h"

namespace jaxlib_ext {
namespace {

// Neighboring lanes that are scanned together if elements of one lane are not neighbors.
constexpr size_t kColumns = 256;
// So many elements are scanned at a time, as `kChains` segments side by side: one after the other they
// would wait for each other's additions.
constexpr size_t kChunk = 4096;
constexpr size_t kChains = 4;

template <typename T>
using Unsigned = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// What sums and products are taken of, and accumulated in: integers without a sign, as they wrap around.
template <typename T>
struct Summed {
  using Element = std::make_unsigned_t<T>;
  using Total = Element;
};
template <>
struct Summed<float> {
  using Element = float;
  using Total = double;
};
template <>
struct Summed<double> {
  using Element = double;
  using Total = double;
};

template <typename T>
struct SumOf {
  using Value = typename Summed<T>::Total;
  static Value Identity() { return Value{0}; }
  static Value Apply(Value a, Value b) { return static_cast<Value>(a + b); }
};

template <typename T>
struct ProductOf {
  using Value = typename Summed<T>::Total;
  static Value Identity() { return Value{1}; }
  // Multiplied as unsigned int, since smaller types would be promoted to int and could overflow.
  static Value Apply(Value a, Value b) {
    if constexpr (std::is_integral_v<Value> && sizeof(Value) < sizeof(int)) {
      return static_cast<Value>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
    } else {
      return a * b;
    }
  }
};

template <typename T, bool maximum>
struct ExtremumOf {
  using Value = T;
  static Value Identity() {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>) {
      return maximum ? -Limits::infinity() : Limits::infinity();
    } else {
      return maximum ? Limits::min() : Limits::max();
    }
  }
  static Value Apply(Value a, Value b) {
    const bool first = maximum ? a > b : a < b;
    if constexpr (std::is_floating_point_v<T>) {
      // Equal numbers have the same bits unless they are zeros.
      if (a == b) {
        const auto x = std::bit_cast<Unsigned<T>>(a);
        const auto y = std::bit_cast<Unsigned<T>>(b);
        return std::bit_cast<T>(maximum ? x & y : x | y);
      }
      return first || a != a ? a : b;
    } else {
      return first ? a : b;
    }
  }
};

// The lanes of an array, the elements of which are counted from the end if `reverse`.
template <typename Op, typename T, bool reverse>
class Scan {
 public:
  using Value = typename Op::Value;

  Scan(const LaneShape& shape, const T* in, T* out) : shape_(shape), in_(in), out_(out) {}

  void Run(TaskRunner& runner) const {
    if (shape_.num_elements() == 0) return;
    if (shape_.inner != 1) {
      RunColumns(runner);
    } else if (shape_.outer >= runner.num_threads()) {
      const size_t grain = std::max<size_t>(kParallelElements / shape_.size, 1);
      ParallelRanges(runner, shape_.outer, grain, [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row) ScanRange(row, 0, shape_.size, Op::Identity());
      });
    } else {
      for (size_t row = 0; row < shape_.outer; ++row) RunRow(runner, row);
    }
  }

 private:
  size_t Place(size_t row, size_t i) const {
    return row * shape_.size + (reverse ? shape_.size - 1 - i : i);
  }

  // One lane, in parts: first what each part adds up to, then the scans.
  void RunRow(TaskRunner& runner, size_t row) const {
    const size_t size = shape_.size;
    const size_t parts =
        std::clamp<size_t>(size / kParallelElements, 1, runner.num_threads());
    std::vector<Value> before(parts + 1, Op::Identity());
    ParallelFor(runner, parts - 1, [&](size_t, size_t part) {
      before[part + 1] = Total(row, size * part / parts, size * (part + 1) / parts);
    });
    for (size_t part = 1; part < parts; ++part) {
      before[part] = Op::Apply(before[part - 1], before[part]);
    }
    ParallelFor(runner, parts, [&](size_t, size_t part) {
      ScanRange(row, size * part / parts, size * (part + 1) / parts, before[part]);
    });
  }

  Value Total(size_t row, size_t begin, size_t end) const {
    constexpr size_t kWidth = 8;
    std::array<Value, kWidth> totals;
    totals.fill(Op::Identity());
    size_t i = begin;
    for (; i + kWidth <= end; i += kWidth) {
      const T* x = in_ + (reverse ? Place(row, i + kWidth - 1) : Place(row, i));
      for (size_t j = 0; j < kWidth; ++j) {
        totals[j] = Op::Apply(totals[j], static_cast<Value>(x[j]));
      }
    }
    Value total = Op::Identity();
    for (const Value value : totals) total = Op::Apply(total, value);
    for (; i < end; ++i) total = Op::Apply(total, static_cast<Value>(in_[Place(row, i)]));
    return total;
  }

  void ScanRange(size_t row, size_t begin, size_t end, Value before) const {
    for (; begin < end; begin += kChunk) before = ScanChunk(row, begin, std::min(end, begin + kChunk), before);
  }

  Value ScanChunk(size_t row, size_t begin, size_t end, Value before) const {
    const size_t length = (end - begin) / kChains;
    std::array<Value, kChains> totals;
    totals[0] = before;
    for (size_t chain = 1; chain < kChains; ++chain) {
      const size_t start = begin + (chain - 1) * length;
      totals[chain] = Op::Apply(totals[chain - 1], Total(row, start, start + length));
    }
    for (size_t i = 0; i < length; ++i) {
      for (size_t chain = 0; chain < kChains; ++chain) {
        const size_t place = Place(row, begin + chain * length + i);
        totals[chain] = Op::Apply(totals[chain], static_cast<Value>(in_[place]));
        out_[place] = static_cast<T>(totals[chain]);
      }
    }
    Value total = totals[kChains - 1];
    for (size_t i = begin + kChains * length; i < end; ++i) {
      const size_t place = Place(row, i);
      total = Op::Apply(total, static_cast<Value>(in_[place]));
      out_[place] = static_cast<T>(total);
    }
    return total;
  }

  void RunColumns(TaskRunner& runner) const {
    const size_t blocks = (shape_.inner + kColumns - 1) / kColumns;
    const size_t elements = shape_.size * std::min(shape_.inner, kColumns);
    const size_t grain = std::max<size_t>(kParallelElements / elements, 1);
    ParallelRanges(runner, shape_.outer * blocks, grain, [&](size_t begin, size_t end) {
      for (size_t block = begin; block < end; ++block) {
        const size_t first = block % blocks * kColumns;
        ScanColumns(block / blocks, first, std::min(kColumns, shape_.inner - first));
      }
    });
  }

  void ScanColumns(size_t outer, size_t first, size_t count) const {
    std::array<Value, kColumns> totals;
    totals.fill(Op::Identity());
    for (size_t i = 0; i < shape_.size; ++i) {
      const size_t place = Place(outer, i) * shape_.inner + first;
      const T* x = in_ + place;
      T* y = out_ + place;
      for (size_t c = 0; c < count; ++c) {
        totals[c] = Op::Apply(totals[c], static_cast<Value>(x[c]));
        y[c] = static_cast<T>(totals[c]);
      }
    }
  }

  const LaneShape shape_;
  const T* const in_;
  T* const out_;
};

template <typename Op, typename T>
void CumulateBy(TaskRunner& runner, bool reverse, const LaneShape& shape, const void* in, void* out) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  if (reverse) {
    Scan<Op, T, true>(shape, from, to).Run(runner);
  } else {
    Scan<Op, T, false>(shape, from, to).Run(runner);
  }
}

template <typename T>
void CumulateOf(TaskRunner& runner, Operation operation, bool reverse, const LaneShape& shape,
                const void* in, void* out) {
  using Element = typename Summed<T>::Element;  // so that numbers with and without a sign share code
  switch (operation) {
    case Operation::kSum:
      return CumulateBy<SumOf<Element>, Element>(runner, reverse, shape, in, out);
    case Operation::kProduct:
      return CumulateBy<ProductOf<Element>, Element>(runner, reverse, shape, in, out);
    case Operation::kMaximum:
      return CumulateBy<ExtremumOf<T, true>, T>(runner, reverse, shape, in, out);
    case Operation::kMinimum:
      return CumulateBy<ExtremumOf<T, false>, T>(runner, reverse, shape, in, out);
  }
}

}  // namespace

void Cumulate(TaskRunner& runner, ElementType type, Operation operation, bool reverse,
              const LaneShape& shape, const void* in, void* out) {
  VisitNumber(type, [&](auto number) {
    CumulateOf<decltype(number)>(runner, operation, reverse, shape, in, out);
  });
}

}  // namespace jaxlib_ext
