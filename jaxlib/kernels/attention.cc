// T. Dao, "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023.

#include "jaxlib/kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"
#include "jaxlib/kernels/vector_attention.h"
#include "jaxlib/kernels/workspace.h"

namespace jaxlib_ext {
namespace {

// The sizes of tiles of logits: multiples of the rows and columns that are computed at a time.
constexpr size_t kQueries = 48;
constexpr size_t kKeys = 256;
constexpr size_t kKeysOfGradient = 128;
// Queries and keys that a task takes: multiples of the above, so that results do not depend on tasks.
constexpr size_t kMostQueries = 10 * kQueries;
constexpr size_t kFewQueries = 2 * kQueries;
constexpr size_t kTaskKeys = 4 * kKeysOfGradient;
// Fewer multiplications than this are not worth waking a thread.
constexpr size_t kParallelProducts = size_t{1} << 19;

constexpr size_t RoundUp(size_t size, size_t to) { return (size + to - 1) / to * to; }

// Elements of memory, and what they are computed as.
template <typename T>
struct Same {
  using Stored = T;
  using Number = T;
  static T Load(T x) { return x; }
  static T Store(T x) { return x; }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Number = float;
  static float Load(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
  static uint16_t Store(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

// The rows of one head of an array.
template <typename Pointer>
struct Rows {
  Pointer data;
  size_t stride;

  Pointer row(size_t i) const { return data + i * stride; }
};

template <typename Pointer>
Rows<Pointer> RowsOf(const AttentionShape& shape, Pointer data, size_t length, size_t heads, size_t sequence,
                     size_t head) {
  const size_t size = shape.size;
  if (shape.heads_first) return {data + (sequence * heads + head) * length * size, size};
  return {data + (sequence * length * heads + head) * size, heads * size};
}

// What the queries of a sequence attend to, each a range of keys.
class Ranges {
 public:
  struct Range {
    size_t begin;
    size_t end;

    bool empty() const { return begin >= end; }
  };

  Ranges(const AttentionMask& mask, size_t keys, size_t sequence)
      : mask_(mask), keys_(static_cast<int64_t>(keys)) {
    if (mask.key_lengths != nullptr) keys_ = std::min<int64_t>(keys_, mask.key_lengths[sequence]);
    if (mask.query_lengths != nullptr) queries_ = mask.query_lengths[sequence];
  }

  // Whether it is longer than its sequence.
  bool IsPadding(size_t query) const { return static_cast<int64_t>(query) >= queries_; }

  Range Of(size_t query) const {
    const auto place = static_cast<int64_t>(query);
    if (place >= queries_) return {0, 0};
    int64_t begin = 0;
    int64_t end = keys_;
    if (mask_.causal) end = std::min(end, place + 1);
    if (mask_.windowed) {
      begin = std::max(begin, place - Bounded(mask_.before));
      end = std::min(end, place + Bounded(mask_.after) + 1);
    }
    return begin < end ? Range{static_cast<size_t>(begin), static_cast<size_t>(end)} : Range{0, 0};
  }

  // What any of the queries attends to.
  Range OfAll(size_t first, size_t last) const {
    Range all = {std::numeric_limits<size_t>::max(), 0};
    for (size_t i = first; i < last; ++i) {
      const Range range = Of(i);
      if (range.empty()) continue;
      all = {std::min(all.begin, range.begin), std::max(all.end, range.end)};
    }
    return all.empty() ? Range{0, 0} : all;
  }

 private:
  // Places are far below the limit.
  static int64_t Bounded(int64_t offset) {
    constexpr int64_t kLimit = int64_t{1} << 60;
    return std::clamp(offset, -kLimit, kLimit);
  }

  const AttentionMask& mask_;
  int64_t keys_;
  int64_t queries_ = std::numeric_limits<int64_t>::max();
};

// The mask of a query: which of its keys count.
class Allowed {
 public:
  Allowed(const AttentionMask& mask, size_t sequence, size_t head, size_t query)
      : keys_(mask.allowed == nullptr
                  ? nullptr
                  : mask.allowed + sequence * mask.strides[0] + head * mask.strides[1] + query * mask.strides[2]),
        stride_(mask.strides[3]) {}

  // Has `masked` in place of what does not count of the logits of keys from `begin` to `end`.
  template <typename T>
  void Apply(T* logits, size_t begin, size_t end, T masked) const {
    if (keys_ == nullptr) return;
    if (stride_ == 0) {
      if (*keys_ == 0) std::fill_n(logits, end - begin, masked);
      return;
    }
    const uint8_t* keys = keys_ + begin;
    for (size_t i = 0; i < end - begin; ++i) logits[i] = keys[i] != 0 ? logits[i] : masked;
  }

 private:
  const uint8_t* keys_;
  size_t stride_;
};

// ---------------------------------------------------------------------------------------------------------------
// Packing

// As rows, one after the other. Columns from `size` to `width` are zeros.
template <typename Element, typename Pointer>
void PackRows(const Rows<Pointer>& from, size_t first, size_t count, size_t size, size_t width,
              typename Element::Number* to) {
  for (size_t i = 0; i < count; ++i, to += width) {
    const auto* row = from.row(first + i);
    for (size_t j = 0; j < size; ++j) to[j] = Element::Load(row[j]);
    std::fill(to + size, to + width, 0);
  }
}

// As the second factor of a product that sums over the rows.
template <typename Element, typename Pointer>
void PackPanels(const Rows<Pointer>& from, size_t count, size_t size, typename Element::Number* to) {
  constexpr size_t kWidth = kPanel<typename Element::Number>;
  for (size_t begin = 0; begin < size; begin += kWidth) {
    const size_t columns = std::min(kWidth, size - begin);
    for (size_t i = 0; i < count; ++i, to += kWidth) {
      const auto* row = from.row(i) + begin;
      if (columns == kWidth) {
        for (size_t j = 0; j < kWidth; ++j) to[j] = Element::Load(row[j]);
        continue;
      }
      for (size_t j = 0; j < columns; ++j) to[j] = Element::Load(row[j]);
      std::fill(to + columns, to + kWidth, 0);
    }
  }
}

// As the second factor of a product that sums over the columns: rows are columns of the panels.
template <typename Element, typename Pointer>
void PackTransposed(const Rows<Pointer>& from, size_t count, size_t size, typename Element::Number* to) {
  constexpr size_t kWidth = kPanel<typename Element::Number>;
  for (size_t begin = 0; begin < count; begin += kWidth, to += size * kWidth) {
    const size_t rows = std::min(kWidth, count - begin);
    for (size_t j = 0; j < rows; ++j) {
      const auto* row = from.row(begin + j);
      for (size_t i = 0; i < size; ++i) to[i * kWidth + j] = Element::Load(row[i]);
    }
    for (size_t i = 0; i < size && rows < kWidth; ++i) std::fill(to + i * kWidth + rows, to + (i + 1) * kWidth, 0);
  }
}

template <typename Element, typename Pointer>
void StoreRows(const typename Element::Number* from, size_t width, const Rows<Pointer>& to, size_t first, size_t count,
               size_t size) {
  for (size_t i = 0; i < count; ++i, from += width) {
    auto* row = to.row(first + i);
    for (size_t j = 0; j < size; ++j) row[j] = Element::Store(from[j]);
  }
}

template <typename T>
void AddTo(T* to, const T* what, size_t size) {
  for (size_t i = 0; i < size; ++i) to[i] += what[i];
}

// ---------------------------------------------------------------------------------------------------------------
// The attention

template <typename Element>
class Forward {
 public:
  using Stored = typename Element::Stored;
  using T = typename Element::Number;

  Forward(const AttentionShape& shape, const AttentionMask& mask, const void* query, const void* key,
          const void* value, void* out, void* log_sums)
      : shape_(shape),
        mask_(mask),
        query_(static_cast<const Stored*>(query)),
        key_(static_cast<const Stored*>(key)),
        value_(static_cast<const Stored*>(value)),
        out_(static_cast<Stored*>(out)),
        log_sums_(static_cast<T*>(log_sums)),
        width_(RoundUp(shape.size, kPanel<T>)),
        keys_(RoundUp(shape.keys, kPanel<T>)) {}

  void Run(TaskRunner& runner) const {
    const size_t heads = shape_.batch * shape_.heads;
    const size_t rows = heads >= 2 * runner.num_threads() ? kMostQueries : kFewQueries;
    const size_t parts = RoundUp(shape_.queries, rows) / rows;
    ParallelFor(runner, heads * parts, [&](size_t, size_t task) {
      const size_t first = task % parts * rows;
      Head(task / parts, first, std::min(first + rows, shape_.queries));
    });
  }

 private:
  static constexpr T kMasked = static_cast<T>(kMaskedLogit);

  void Head(size_t index, size_t first, size_t last) const {
    const size_t sequence = index / shape_.heads;
    const size_t head = index % shape_.heads;
    const size_t key_head = head / (shape_.heads / shape_.key_heads);
    const auto keys = RowsOf(shape_, key_, shape_.keys, shape_.key_heads, sequence, key_head);
    const auto values = RowsOf(shape_, value_, shape_.keys, shape_.key_heads, sequence, key_head);
    const auto queries = RowsOf(shape_, query_, shape_.queries, shape_.heads, sequence, head);
    const auto out = RowsOf(shape_, out_, shape_.queries, shape_.heads, sequence, head);
    T* log_sums = log_sums_ + index * shape_.queries;
    const Ranges ranges(mask_, shape_.keys, sequence);

    Workspace space(sizeof(T) * (shape_.size * keys_ + width_ * (shape_.keys + 2 * kQueries + 1) +
                                 kQueries * (kKeys + 2)) +
                    6 * Workspace::kAlignment);
    T* packed_keys = space.Take<T>(shape_.size * keys_);
    T* packed_values = space.Take<T>(width_ * shape_.keys);
    const Tile tile = {.queries = space.Take<T>(kQueries * width_),
                       .logits = space.Take<T>(kQueries * kKeys),
                       .out = space.Take<T>(kQueries * width_),
                       .largest = space.Take<T>(2 * kQueries),
                       .mean = space.Take<T>(width_)};
    PackTransposed<Element>(keys, shape_.keys, shape_.size, packed_keys);
    PackPanels<Element>(values, shape_.keys, shape_.size, packed_values);
    bool has_mean = false;
    for (size_t i = first; i < last; i += kQueries) {
      const size_t rows = std::min(kQueries, last - i);
      PackRows<Element>(queries, i, rows, shape_.size, width_, tile.queries);
      Attend(tile, packed_keys, packed_values, ranges, sequence, head, i, rows);
      for (size_t row = 0; row < rows; ++row) {
        T* to = tile.out + row * width_;
        const T sum = tile.largest[kQueries + row];
        const bool uniform = tile.largest[row] == kMasked || ranges.Of(i + row).empty();
        if (uniform && !has_mean) {
          Mean(packed_values, tile.mean);
          has_mean = true;
        }
        if (ranges.IsPadding(i + row)) {
          std::fill_n(to, width_, 0);
        } else if (uniform) {
          std::copy_n(tile.mean, width_, to);
        } else {
          const T factor = 1 / sum;
          for (size_t j = 0; j < width_; ++j) to[j] *= factor;
        }
        log_sums[i + row] = uniform ? kMasked + std::log(static_cast<T>(shape_.keys))
                                    : tile.largest[row] + std::log(sum);
      }
      StoreRows<Element>(tile.out, width_, out, i, rows, shape_.size);
    }
  }

  struct Tile {
    T* queries;
    T* logits;
    T* out;
    T* largest;  // the largest logits, then the sums of exponentials of what is below
    T* mean;     // of the values
  };

  // The sums of the values' rows, weighted by exponentials of the logits less the largest.
  void Attend(const Tile& tile, const T* keys, const T* values, const Ranges& ranges, size_t sequence, size_t head,
              size_t first, size_t rows) const {
    T* sums = tile.largest + kQueries;
    std::fill_n(tile.largest, rows, -std::numeric_limits<T>::infinity());
    std::fill_n(sums, rows, 0);
    std::fill_n(tile.out, rows * width_, 0);
    const Ranges::Range all = ranges.OfAll(first, first + rows);
    for (size_t begin = all.begin / kPanel<T> * kPanel<T>; begin < all.end; begin += kKeys) {
      const size_t end = std::min(begin + kKeys, all.end);
      const size_t panels = RoundUp(end - begin, kPanel<T>) / kPanel<T>;
      VectorTileProduct(TileProduct<T>{.a = tile.queries,
                                       .a_row = width_,
                                       .a_depth = 1,
                                       .b = keys + begin * shape_.size,
                                       .b_panel = shape_.size * kPanel<T>,
                                       .c = tile.logits,
                                       .c_row = kKeys,
                                       .rows = rows,
                                       .depth = shape_.size,
                                       .panels = panels,
                                       .accumulate = false});
      for (size_t row = 0; row < rows; ++row) {
        T* logits = tile.logits + row * kKeys;
        Ranges::Range range = ranges.Of(first + row);
        range = {std::max(range.begin, begin), std::min(range.end, end)};
        if (range.empty()) {
          std::fill_n(logits, end - begin, 0);
          continue;
        }
        T* counting = logits + (range.begin - begin);
        const size_t count = range.end - range.begin;
        T largest = VectorScaledMaximum(counting, count, static_cast<T>(shape_.scale));
        if (mask_.allowed != nullptr) {
          Allowed(mask_, sequence, head, first + row).Apply(counting, range.begin, range.end, kMasked);
          largest = VectorScaledMaximum(counting, count, T{1});
        }
        if (largest > tile.largest[row]) {
          const T factor = std::exp(tile.largest[row] - largest);
          if (sums[row] != 0) {
            sums[row] *= factor;
            for (size_t j = 0; j < width_; ++j) tile.out[row * width_ + j] *= factor;
          }
          tile.largest[row] = largest;
        }
        sums[row] += VectorExponentials(counting, count, tile.largest[row]);
        std::fill(logits, counting, 0);
        std::fill(counting + count, logits + (end - begin), 0);
      }
      VectorTileProduct(TileProduct<T>{.a = tile.logits,
                                       .a_row = kKeys,
                                       .a_depth = 1,
                                       .b = values + begin * kPanel<T>,
                                       .b_panel = shape_.keys * kPanel<T>,
                                       .c = tile.out,
                                       .c_row = width_,
                                       .rows = rows,
                                       .depth = end - begin,
                                       .panels = width_ / kPanel<T>,
                                       .accumulate = true});
    }
  }

  void Mean(const T* values, T* mean) const {
    const T factor = 1 / static_cast<T>(shape_.keys);
    for (size_t panel = 0; panel < width_ / kPanel<T>; ++panel, mean += kPanel<T>) {
      std::fill_n(mean, kPanel<T>, 0);
      for (size_t i = 0; i < shape_.keys; ++i, values += kPanel<T>) AddTo(mean, values, kPanel<T>);
      for (size_t j = 0; j < kPanel<T>; ++j) mean[j] *= factor;
    }
  }

  const AttentionShape& shape_;
  const AttentionMask& mask_;
  const Stored* query_;
  const Stored* key_;
  const Stored* value_;
  Stored* out_;
  T* log_sums_;
  const size_t width_;  // of a row that fills panels
  const size_t keys_;   // that fill panels
};

// ---------------------------------------------------------------------------------------------------------------
// Its gradient

template <typename Element>
class Backward {
 public:
  using Stored = typename Element::Stored;
  using T = typename Element::Number;

  Backward(const AttentionShape& shape, const AttentionMask& mask, const void* query, const void* key,
           const void* value, const void* out, const void* log_sums, const void* cotangent,
           const AttentionGradients& gradients)
      : shape_(shape),
        mask_(mask),
        query_(static_cast<const Stored*>(query)),
        key_(static_cast<const Stored*>(key)),
        value_(static_cast<const Stored*>(value)),
        out_(static_cast<const Stored*>(out)),
        cotangent_(static_cast<const Stored*>(cotangent)),
        log_sums_(static_cast<const T*>(log_sums)),
        query_gradient_(static_cast<Stored*>(gradients.query)),
        key_gradient_(static_cast<Stored*>(gradients.key)),
        value_gradient_(static_cast<Stored*>(gradients.value)),
        width_(RoundUp(shape.size, kPanel<T>)) {}

  void Run(TaskRunner& runner) const {
    const size_t heads = shape_.batch * shape_.key_heads;
    const size_t group = shape_.heads / shape_.key_heads;
    const size_t threads = runner.num_threads();
    // All gradients at once take five products. Those by keys and values, of which queries can be shared out, take
    // four, and that by queries three more.
    const size_t key_parts = RoundUp(shape_.keys, kTaskKeys) / kTaskKeys;
    const size_t query_parts = RoundUp(shape_.queries, kFewQueries) / kFewQueries;
    const auto turns = [&](size_t tasks) { return RoundUp(tasks, threads) / threads; };
    const size_t together = 5 * turns(heads) * key_parts * query_parts * group;
    const size_t apart = 4 * turns(heads * key_parts) * query_parts * group +
                         3 * turns(heads * group * query_parts) * key_parts;
    if (together <= apart) {
      ParallelFor(runner, heads, [&](size_t, size_t task) {
        Part({.index = task, .last_head = group, .last_key = shape_.keys, .last_query = shape_.queries,
              .of_query = true, .of_key = true});
      });
      return;
    }
    ParallelFor(runner, heads * key_parts, [&](size_t, size_t task) {
      const size_t first = task % key_parts * kTaskKeys;
      Part({.index = task / key_parts, .last_head = group, .first_key = first,
            .last_key = std::min(first + kTaskKeys, shape_.keys), .last_query = shape_.queries, .of_key = true});
    });
    ParallelFor(runner, heads * group * query_parts, [&](size_t, size_t task) {
      const size_t first = task % query_parts * kFewQueries;
      const size_t head = task / query_parts % group;
      Part({.index = task / query_parts / group, .first_head = head, .last_head = head + 1, .last_key = shape_.keys,
            .first_query = first, .last_query = std::min(first + kFewQueries, shape_.queries), .of_query = true});
    });
  }

 private:
  // Which gradients are computed, and of which heads, queries and keys. Ranges begin where tiles do.
  struct Which {
    size_t index;  // of the head of keys
    size_t first_head = 0;  // of those of queries that attend to it
    size_t last_head = 0;
    size_t first_key = 0;
    size_t last_key = 0;
    size_t first_query = 0;
    size_t last_query = 0;
    bool of_query = false;
    bool of_key = false;
  };

  struct Space {
    T* transposed_keys;
    T* transposed_values;
    T* panels_of_keys;
    T* key_gradient;
    T* value_gradient;
    T* queries;
    T* cotangents;
    T* panels_of_queries;
    T* panels_of_cotangents;
    T* query_gradient;
    T* means;  // of the weights' cotangents, by the weights
    T* uniform;
    T* weights;
    T* logit_cotangents;
  };

  Space Taken(Workspace& space, size_t queries, size_t keys) const {
    const size_t padded = RoundUp(keys, kPanel<T>);
    const size_t tile = kQueries * kKeysOfGradient;
    return {.transposed_keys = space.Take<T>(shape_.size * padded),
            .transposed_values = space.Take<T>(shape_.size * padded),
            .panels_of_keys = space.Take<T>(width_ * keys),
            .key_gradient = space.Take<T>(width_ * padded),
            .value_gradient = space.Take<T>(width_ * padded),
            .queries = space.Take<T>(width_ * queries),
            .cotangents = space.Take<T>(width_ * queries),
            .panels_of_queries = space.Take<T>(width_ * queries),
            .panels_of_cotangents = space.Take<T>(width_ * queries),
            .query_gradient = space.Take<T>(width_ * queries),
            .means = space.Take<T>(queries),
            .uniform = space.Take<T>(width_),
            .weights = space.Take<T>(tile),
            .logit_cotangents = space.Take<T>(tile)};
  }

  void Part(const Which& which) const {
    const size_t queries = which.last_query - which.first_query;
    const size_t keys = which.last_key - which.first_key;
    const size_t padded = RoundUp(keys, kPanel<T>);
    Workspace space(sizeof(T) * (2 * shape_.size * padded + width_ * (keys + 2 * padded + 5 * queries + 1) + queries +
                                 2 * kQueries * kKeysOfGradient) +
                    14 * Workspace::kAlignment);
    const Space at = Taken(space, queries, keys);
    const size_t sequence = which.index / shape_.key_heads;
    const size_t key_head = which.index % shape_.key_heads;
    const size_t group = shape_.heads / shape_.key_heads;
    const auto of_keys = [&](auto* data) {
      auto rows = RowsOf(shape_, data, shape_.keys, shape_.key_heads, sequence, key_head);
      rows.data = rows.row(which.first_key);
      return rows;
    };
    PackTransposed<Element>(of_keys(key_), keys, shape_.size, at.transposed_keys);
    PackTransposed<Element>(of_keys(value_), keys, shape_.size, at.transposed_values);
    if (which.of_query) PackPanels<Element>(of_keys(key_), keys, shape_.size, at.panels_of_keys);
    if (which.of_key) {
      std::fill_n(at.key_gradient, width_ * padded, 0);
      std::fill_n(at.value_gradient, width_ * padded, 0);
      std::fill_n(at.uniform, width_, 0);
    }
    for (size_t i = which.first_head; i < which.last_head; ++i) {
      Head(which, at, sequence, key_head * group + i);
    }
    if (which.of_key) {
      for (size_t i = 0; i < keys; ++i) AddTo(at.value_gradient + i * width_, at.uniform, width_);
      StoreRows<Element>(at.key_gradient, width_, of_keys(key_gradient_), 0, keys, shape_.size);
      StoreRows<Element>(at.value_gradient, width_, of_keys(value_gradient_), 0, keys, shape_.size);
    }
  }

  void Head(const Which& which, const Space& at, size_t sequence, size_t head) const {
    const size_t queries = which.last_query - which.first_query;
    const Ranges ranges(mask_, shape_.keys, sequence);
    const auto of_queries = [&](auto* data) {
      auto rows = RowsOf(shape_, data, shape_.queries, shape_.heads, sequence, head);
      rows.data = rows.row(which.first_query);
      return rows;
    };
    PackRows<Element>(of_queries(query_), 0, queries, shape_.size, width_, at.queries);
    PackRows<Element>(of_queries(cotangent_), 0, queries, shape_.size, width_, at.cotangents);
    if (which.of_key) {
      PackPanels<Element>(of_queries(query_), queries, shape_.size, at.panels_of_queries);
      PackPanels<Element>(of_queries(cotangent_), queries, shape_.size, at.panels_of_cotangents);
    }
    if (which.of_query) std::fill_n(at.query_gradient, width_ * queries, 0);
    const T* log_sums = log_sums_ + (sequence * shape_.heads + head) * shape_.queries + which.first_query;
    const auto out = of_queries(out_);
    const T share = 1 / static_cast<T>(shape_.keys);
    for (size_t i = 0; i < queries; ++i) {
      const T* cotangent = at.cotangents + i * width_;
      T mean = 0;
      for (size_t j = 0; j < shape_.size; ++j) mean += Element::Load(out.row(i)[j]) * cotangent[j];
      at.means[i] = mean;
      if (which.of_key && IsUniform(log_sums[i]) && !ranges.IsPadding(which.first_query + i)) {
        for (size_t j = 0; j < width_; ++j) at.uniform[j] += share * cotangent[j];
      }
    }
    for (size_t key = which.first_key; key < which.last_key; key += kKeysOfGradient) {
      for (size_t query = 0; query < queries; query += kQueries) {
        Tile(which, at, ranges, sequence, head, log_sums, query, key);
      }
    }
    if (which.of_query) {
      StoreRows<Element>(at.query_gradient, width_, of_queries(query_gradient_), 0, queries, shape_.size);
    }
  }

  // A query that attends to all keys alike, as none of its logits counts.
  static bool IsUniform(T log_sum) {
    return log_sum <= static_cast<T>(kMaskedLogit * 0.99) && !std::isinf(log_sum);
  }

  // Adds what a tile of logits contributes. Queries are counted from the first one, keys from the array's first.
  void Tile(const Which& which, const Space& at, const Ranges& ranges, size_t sequence, size_t head,
            const T* log_sums, size_t query, size_t key) const {
    const size_t rows = std::min(kQueries, which.last_query - which.first_query - query);
    const size_t first = which.first_query + query;
    const size_t limit = std::min(key + kKeysOfGradient, which.last_key);
    const Ranges::Range all = ranges.OfAll(first, first + rows);
    const size_t begin = std::max(all.begin / kPanel<T> * kPanel<T>, key);
    const size_t end = std::min(all.end, limit);
    if (begin >= end) return;
    const size_t columns = RoundUp(end - begin, kPanel<T>);
    const size_t place = begin - which.first_key;  // in what is packed
    TileProduct<T> product = {.a = at.queries + query * width_,
                              .a_row = width_,
                              .a_depth = 1,
                              .b = at.transposed_keys + place * shape_.size,
                              .b_panel = shape_.size * kPanel<T>,
                              .c = at.weights,
                              .c_row = kKeysOfGradient,
                              .rows = rows,
                              .depth = shape_.size,
                              .panels = columns / kPanel<T>,
                              .accumulate = false};
    VectorTileProduct(product);
    product.a = at.cotangents + query * width_;
    product.b = at.transposed_values + place * shape_.size;
    product.c = at.logit_cotangents;
    VectorTileProduct(product);
    for (size_t row = 0; row < rows; ++row) {
      T* weights = at.weights + row * kKeysOfGradient;
      T* cotangents = at.logit_cotangents + row * kKeysOfGradient;
      Ranges::Range range = ranges.Of(first + row);
      range = {std::max(range.begin, begin), std::min(range.end, end)};
      if (range.empty() || IsUniform(log_sums[query + row])) {
        std::fill_n(weights, columns, 0);
        std::fill_n(cotangents, columns, 0);
        continue;
      }
      const size_t from = range.begin - begin;
      const size_t to = range.end - begin;
      const Allowed allowed(mask_, sequence, head, first + row);
      VectorLogitGradients(weights + from, cotangents + from, to - from, static_cast<T>(shape_.scale),
                           log_sums[query + row], at.means[query + row]);
      allowed.Apply(weights + from, range.begin, range.end, T{0});
      allowed.Apply(cotangents + from, range.begin, range.end, T{0});
      for (T* x : {weights, cotangents}) {
        std::fill(x, x + from, 0);
        std::fill(x + to, x + columns, 0);
      }
    }
    const size_t queries = which.last_query - which.first_query;
    if (which.of_key) {
      product = {.a = at.weights,
                 .a_row = 1,
                 .a_depth = kKeysOfGradient,
                 .b = at.panels_of_cotangents + query * kPanel<T>,
                 .b_panel = queries * kPanel<T>,
                 .c = at.value_gradient + place * width_,
                 .c_row = width_,
                 .rows = end - begin,
                 .depth = rows,
                 .panels = width_ / kPanel<T>,
                 .accumulate = true};
      VectorTileProduct(product);
      product.a = at.logit_cotangents;
      product.b = at.panels_of_queries + query * kPanel<T>;
      product.c = at.key_gradient + place * width_;
      VectorTileProduct(product);
    }
    if (which.of_query) {
      VectorTileProduct(TileProduct<T>{.a = at.logit_cotangents,
                                       .a_row = kKeysOfGradient,
                                       .a_depth = 1,
                                       .b = at.panels_of_keys + place * kPanel<T>,
                                       .b_panel = (which.last_key - which.first_key) * kPanel<T>,
                                       .c = at.query_gradient + query * width_,
                                       .c_row = width_,
                                       .rows = rows,
                                       .depth = end - begin,
                                       .panels = width_ / kPanel<T>,
                                       .accumulate = true});
    }
  }

  const AttentionShape& shape_;
  const AttentionMask& mask_;
  const Stored* query_;
  const Stored* key_;
  const Stored* value_;
  const Stored* out_;
  const Stored* cotangent_;
  const T* log_sums_;
  Stored* query_gradient_;
  Stored* key_gradient_;
  Stored* value_gradient_;
  const size_t width_;  // of a row that fills panels
};

template <typename Run>
void ForType(TaskRunner& runner, const AttentionShape& shape, const Run& run) {
  SerialRunner serial;
  // In floating point, where it cannot overflow.
  const double products = static_cast<double>(shape.batch * shape.heads * shape.queries) *
                          static_cast<double>(shape.keys) * static_cast<double>(shape.size);
  TaskRunner& with = products < static_cast<double>(kParallelProducts) ? serial : runner;
  switch (shape.type) {
    case ElementType::kBfloat16:
      return run(with, Bfloat16());
    case ElementType::kFloat64:
      return run(with, Same<double>());
    default:
      return run(with, Same<float>());
  }
}

}  // namespace

void Attention(TaskRunner& runner, const AttentionShape& shape, const AttentionMask& mask, const void* query,
               const void* key, const void* value, void* out, void* log_sums) {
  ForType(runner, shape, [&](TaskRunner& with, auto element) {
    Forward<decltype(element)>(shape, mask, query, key, value, out, log_sums).Run(with);
  });
}

void AttentionGradient(TaskRunner& runner, const AttentionShape& shape, const AttentionMask& mask, const void* query,
                       const void* key, const void* value, const void* out, const void* log_sums,
                       const void* cotangent, const AttentionGradients& gradients) {
  ForType(runner, shape, [&](TaskRunner& with, auto element) {
    Backward<decltype(element)>(shape, mask, query, key, value, out, log_sums, cotangent, gradients).Run(with);
  });
}

}  // namespace jaxlib_ext
