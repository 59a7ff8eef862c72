#include "jaxlib/kernels/scatter_add.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "jaxlib/kernels/numbers.h"
#include "jaxlib/kernels/workspace.h"

namespace jaxlib_ext {
namespace {

// Chunks have at least so many elements of updates.
constexpr size_t kMinChunk = 1 << 14;
constexpr size_t kChunk = 1 << 16;
constexpr size_t kMaxChunks = 16;
// Sums of a chunk must fit in the cache.
constexpr size_t kMaxSums = 1 << 14;
// If rows are short, consecutive updates of one row would wait for each other: they go to sums of their own.
constexpr size_t kLanes = 4;
constexpr size_t kMaxLaneSums = 1 << 12;
constexpr size_t kLanePadding = 16;
// So many indices are turned into rows at a time.
constexpr size_t kBlock = 128;
// Within a block of them processors do not see that the next ones will be needed: so many elements ahead are fetched.
constexpr size_t kAhead = 512;
constexpr size_t kFetched = 16;

// Integers are added without a sign, as they wrap around.
template <typename T>
struct Sum {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Sum<float> {
  using Type = float;
};
template <>
struct Sum<double> {
  using Type = double;
};

template <typename T>
T Add(T a, T b) {
  return static_cast<T>(a + b);
}

template <typename T>
struct Updates {
  const T* rows;
  size_t stride;  // 0 if all updates are the same row

  const T* operator[](size_t i) const { return rows + i * stride; }
};

// The row for an index, `num_rows` if there is none. `num_rows` is not zero. Few rows have an int32 as their number: then
// vector instructions do this, for indices of the same size.
template <typename Number, typename Index>
Number Row(Index index, Number num_rows, bool clip) {
  const auto row = static_cast<Number>(index);
  const bool before = row < 0;
  const bool behind = row >= num_rows;
  if (clip) return before ? Number{0} : behind ? num_rows - 1 : row;
  return before || behind ? num_rows : row;
}

template <typename Index>
int64_t Widened(Index index) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if constexpr (std::is_same_v<Index, uint64_t>) return static_cast<int64_t>(std::min(index, kMax));
  return static_cast<int64_t>(index);
}

// How many sums a chunk has for each lane. Those behind the last row's take what is added there: that an index is
// below a power of two needs no comparison.
size_t NumSums(size_t num_rows) { return std::bit_ceil(num_rows + 1); }

// The sums for `count` indices, at least one, in `rows` or where the indices are.
template <typename Index>
const uint32_t* Rows(const Index* indices, size_t count, size_t num_rows, bool clip, uint32_t* rows) {
  using Number = std::conditional_t<(sizeof(Index) < 4 || std::is_same_v<Index, int32_t>), int32_t, int64_t>;
  const auto limit = static_cast<Number>(num_rows);
  if constexpr (std::is_same_v<Index, int32_t>) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; ++i) bits |= static_cast<uint32_t>(indices[i]);
    if (bits < NumSums(num_rows)) return reinterpret_cast<const uint32_t*>(indices);
  }
  for (size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(Number) == 4) {
      rows[i] = static_cast<uint32_t>(Row<Number>(indices[i], limit, clip));
    } else {
      rows[i] = static_cast<uint32_t>(Row<Number>(Widened(indices[i]), limit, clip));
    }
  }
  return rows;
}

template <typename T, typename Index>
void AddOneByOne(const RowUpdates& what, const Index* indices, const Updates<T>& updates, T* out) {
  const auto num_rows = static_cast<int64_t>(what.num_rows);
  for (size_t i = 0; i < what.num_updates; ++i) {
    const int64_t place = Row(Widened(indices[i]), num_rows, what.clip);
    if (place == num_rows) continue;
    const auto row = static_cast<size_t>(place);
    T* to = out + row * what.width;
    const T* from = updates[i];
    for (size_t c = 0; c < what.width; ++c) to[c] = Add(to[c], from[c]);
  }
}

template <typename T>
void AddTo(T* __restrict to, const T* __restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = Add(to[i], from[i]);
}

// Adds to the rows of `sums`, of the given width unless it is zero.
template <size_t fixed_width, typename T>
void AddBlock(const uint32_t* rows, size_t count, size_t width, size_t first,
              const Updates<T>& updates, T* sums) {
  const T* from = updates[first];
  for (size_t i = 0; i < count; ++i, from += updates.stride) {
    if constexpr (fixed_width == 0) {
      AddTo(sums + rows[i] * width, from, width);
    } else {
      // All is read before something is written: for vector instructions.
      T* to = sums + rows[i] * fixed_width;
      T sum[fixed_width];
      for (size_t c = 0; c < fixed_width; ++c) sum[c] = Add(to[c], from[c]);
      for (size_t c = 0; c < fixed_width; ++c) to[c] = sum[c];
    }
  }
}

// Adds four numbers to the sums of their lanes. They are read, as their rows are, by fewer instructions than numbers.
inline void AddToLanes(const uint32_t* rows, size_t lane_size, const float* from, float* sums) {
  static_assert(kLanes == 4 && std::endian::native == std::endian::little);
  using Four = float __attribute__((vector_size(16)));
  uint64_t pairs[2];
  Four values;
  std::memcpy(pairs, rows, sizeof(pairs));
  std::memcpy(&values, from, sizeof(values));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t pair = pairs[lane / 2];
    const auto row = static_cast<uint32_t>(lane % 2 == 0 ? pair : pair >> 32);
    sums[lane * lane_size + row] += values[lane];
  }
}

// The same as AddBlock for numbers, of which every fourth goes to the same lane.
template <size_t stride, typename T>
void AddLanesOf(const uint32_t* __restrict rows, size_t count, size_t lane_size,
                const T* __restrict from, T* __restrict sums) {
  static_assert(kFetched % kLanes == 0);
  size_t i = 0;
  for (; i + kFetched <= count; i += kFetched) {
    __builtin_prefetch(rows + i + kAhead);
    if constexpr (stride != 0) __builtin_prefetch(from + i + kAhead);
    for (size_t j = i; j < i + kFetched; j += kLanes) {
      if constexpr (std::is_same_v<T, float> && stride == 1) {
        AddToLanes(rows + j, lane_size, from + j, sums);
        continue;
      }
      for (size_t lane = 0; lane < kLanes; ++lane) {
        T& to = sums[lane * lane_size + rows[j + lane]];
        to = Add(to, from[(j + lane) * stride]);
      }
    }
  }
  for (; i < count; ++i) sums[rows[i]] = Add(sums[rows[i]], from[i * stride]);
}

template <typename T>
void AddLanes(const uint32_t* rows, size_t count, size_t lane_size, size_t first,
              const Updates<T>& updates, T* sums) {
  if (updates.stride == 0) {
    AddLanesOf<0>(rows, count, lane_size, updates[first], sums);
  } else {
    AddLanesOf<1>(rows, count, lane_size, updates[first], sums);
  }
}

template <typename T>
void AddBlockOfWidth(const uint32_t* rows, size_t count, size_t width, size_t first,
                     const Updates<T>& updates, T* sums) {
  switch (width) {
    case 1:
      return AddBlock<1>(rows, count, width, first, updates, sums);
    case 2:
      return AddBlock<2>(rows, count, width, first, updates, sums);
    case 3:
      return AddBlock<3>(rows, count, width, first, updates, sums);
    case 4:
      return AddBlock<4>(rows, count, width, first, updates, sums);
    case 8:
      return AddBlock<8>(rows, count, width, first, updates, sums);
    case 16:
      return AddBlock<16>(rows, count, width, first, updates, sums);
    default:
      return AddBlock<0>(rows, count, width, first, updates, sums);
  }
}

// What is added in chunks: if there are no chunks, one by one.
struct Chunks {
  explicit Chunks(const RowUpdates& what) {
    const size_t sums = what.num_rows * what.width;
    const size_t elements = what.num_updates * what.width;
    if (elements < kMinChunk || sums > kMaxSums) return;
    lanes = what.width == 1 && sums <= kMaxLaneSums ? kLanes : 1;
    // Adding up the sums costs less than the updates.
    count = std::min({(elements + kChunk - 1) / kChunk, kMaxChunks, elements / (4 * lanes * sums)});
  }

  size_t count = 0;
  size_t lanes = 0;
};

template <typename T, typename Index>
void AddInChunks(TaskRunner& runner, const RowUpdates& what, const Chunks& chunks,
                 const Index* indices, const Updates<T>& updates, T* out) {
  const size_t num_sums = NumSums(what.num_rows);
  // Processors mix up addresses whose low bits are equal, such as those of one row in lanes of a power of two.
  const size_t lane_size = (num_sums + (chunks.lanes == 1 ? 0 : kLanePadding)) * what.width;
  const size_t size = chunks.lanes * lane_size;
  Workspace workspace(chunks.count * size * sizeof(T));
  T* const all_sums = workspace.Take<T>(chunks.count * size);
  ParallelFor(runner, chunks.count, [&](size_t, size_t chunk) {
    T* const sums = all_sums + chunk * size;
    std::fill_n(sums, size, std::is_floating_point_v<T> ? static_cast<T>(-0.0) : T{0});  // adding -0.0 changes nothing
    const size_t end = what.num_updates * (chunk + 1) / chunks.count;
    uint32_t converted[kBlock];
    for (size_t first = what.num_updates * chunk / chunks.count; first < end; first += kBlock) {
      const size_t count = std::min(kBlock, end - first);
      const uint32_t* rows = Rows(indices + first, count, what.num_rows, what.clip, converted);
      if (chunks.lanes == kLanes) {
        AddLanes(rows, count, lane_size, first, updates, sums);
      } else {
        AddBlockOfWidth(rows, count, what.width, first, updates, sums);
      }
    }
    for (size_t lane = 1; lane < chunks.lanes; ++lane) {
      AddTo(sums, sums + lane * lane_size, lane_size);
    }
    if (what.clip) {
      for (size_t row = what.num_rows; row < num_sums; ++row) {
        AddTo(sums + (what.num_rows - 1) * what.width, sums + row * what.width, what.width);
      }
    }
  });
  for (size_t chunk = 0; chunk < chunks.count; ++chunk) {
    AddTo(out, all_sums + chunk * size, what.num_rows * what.width);
  }
}

template <typename T>
void AddRows(TaskRunner& runner, const RowUpdates& what, T* out) {
  const T* given = static_cast<const T*>(what.updates);
  std::vector<T> row;
  if (what.scalar) row.assign(what.width, *given);
  const Updates<T> updates = {what.scalar ? row.data() : given, what.scalar ? 0 : what.width};
  const Chunks chunks(what);
  VisitNumber(what.index_type, [&](auto index) {
    using Index = decltype(index);
    if constexpr (std::is_integral_v<Index>) {
      const auto* indices = static_cast<const Index*>(what.indices);
      if (chunks.count == 0) {
        AddOneByOne(what, indices, updates, out);
      } else {
        AddInChunks(runner, what, chunks, indices, updates, out);
      }
    }
  });
}

}  // namespace

void ScatterAdd(TaskRunner& runner, const RowUpdates& what, void* out) {
  if (what.num_rows == 0 || what.width == 0) return;
  VisitNumber(what.type, [&](auto number) {
    using T = typename Sum<decltype(number)>::Type;
    AddRows(runner, what, static_cast<T*>(out));
  });
}

}  // namespace jaxlib_ext
