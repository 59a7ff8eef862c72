#include "jaxlib/kernels/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "jaxlib/kernels/sort_integers.h"
#include "jaxlib/kernels/wide.h"
#include "jaxlib/kernels/workspace.h"

// A single array is sorted by its keys (element_type.h), which are then turned back into elements.
//
// Two long arrays of small elements are sorted as pairs, by radix sort, which keeps the order of equal keys.
//
// Other arrays, and complex numbers, are sorted through positions: keys are packed into an integer, the
// first uppermost, with the position lowest. Those integers are all different, so every way of sorting them is
// stable. Keys that do not fit into 128 bits are sorted by in several steps, the last keys first.

namespace jaxlib_ext {
namespace {

// Loops over elements are cut into ranges of at least this size.
constexpr size_t kGrain = 1 << 14;
constexpr size_t kChunk = 512;

// The lanes of a block lie one after the other in workspaces. The distance is odd in cache lines, as powers of
// two would put the elements of a row into the same place of the cache.
template <typename T>
size_t LaneDistance(size_t size) {
  constexpr size_t kLine = Workspace::kAlignment / sizeof(T);
  return ((size + kLine - 1) / kLine | 1) * kLine;
}

// Where something of each lane of a block begins.
template <typename T>
using LanePointers = std::array<const T*, kMaxLanes>;

// ---------------------------------------------------------------------------------------------------
// One array

// Where the first element of a sorted lane is whose key is not below `key`.
template <typename Order, typename Word>
size_t FirstNotBelow(const Word* lane, size_t stride, size_t size, Word key) {
  size_t low = 0;
  size_t high = size;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (Order::ToKey(lane[middle * stride]) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Zeros and NaNs of a sorted lane lost their bits with their keys: they come in the order of the operand.
template <typename Order, typename Word>
void RestoreTies(const Word* in, Word* out, size_t stride, size_t size) {
  size_t zero = FirstNotBelow<Order, Word>(out, stride, size, Order::kZeroKey);
  size_t nan = FirstNotBelow<Order, Word>(out, stride, size, Order::kNanKey);
  const bool no_zeros = zero == size || Order::ToKey(out[zero * stride]) != Order::kZeroKey;
  if (no_zeros && nan == size) return;
  for (size_t i = 0; i < size; ++i) {
    const Word bits = in[i * stride];
    const Word key = Order::ToKey(bits);
    if (key == Order::kZeroKey) out[zero++ * stride] = bits;
    if (key == Order::kNanKey) out[nan++ * stride] = bits;
  }
}

template <typename Order>
class ValueSorter {
 public:
  using Word = typename Order::Word;

  static constexpr size_t kBytesPerElement = 2 * sizeof(Word);

  ValueSorter(const SortOperand& operand, const Lanes& lanes)
      : in_(static_cast<const Word*>(operand.in) + lanes.offset),
        out_(static_cast<Word*>(operand.out) + lanes.offset),
        lanes_(lanes),
        distance_(LaneDistance<Word>(lanes.size)) {}

  static size_t WorkspaceBytes(size_t size, size_t max_lanes) {
    return 2 * Workspace::RoundUp(LaneDistance<Word>(size) * max_lanes * sizeof(Word));
  }

  void Run(TaskRunner& runner, Workspace& workspace) {
    // Keys of contiguous lanes take the place of the result.
    Word* keys = lanes_.contiguous() ? out_ : workspace.Take<Word>(distance_ * lanes_.count);
    Word* scratch = workspace.Take<Word>(distance_ * lanes_.count);
    if (runner.num_threads() == 1) {
      Load(keys, {0, lanes_.count}, 0, lanes_.size);
      for (size_t lane = 0; lane < lanes_.count; ++lane) {
        SortIntegers(keys + lane * distance_, scratch, lanes_.size);
      }
      Store(keys, {0, lanes_.count}, 0, lanes_.size);
    } else {
      for (size_t lane = 0; lane < lanes_.count; ++lane) {
        const size_t shift = lane * distance_;
        SortIntegersInParallel<Word>(
            runner, keys + shift, scratch + shift, lanes_.size, 0, kBits<Word>,
            [&](Word* to, size_t begin, size_t end) {
              Load(to - shift, {lane, lane + 1}, begin, end);
            },
            [&](size_t begin, size_t end) { Store(keys, {lane, lane + 1}, begin, end); });
      }
    }
    if constexpr (Order::kTies) {
      for (size_t lane = 0; lane < lanes_.count; ++lane) {
        RestoreTies<Order>(in_ + lane, out_ + lane, lanes_.stride, lanes_.size);
      }
    }
  }

 private:
  struct LaneRange {
    size_t begin, end;
  };

  void Load(Word* keys, LaneRange range, size_t begin, size_t end) const {
    if (lanes_.contiguous()) {
      for (size_t i = begin; i < end; ++i) keys[i] = Order::ToKey(in_[i]);
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      const Word* row = in_ + i * lanes_.stride;
      for (size_t lane = range.begin; lane < range.end; ++lane) {
        keys[lane * distance_ + i] = Order::ToKey(row[lane]);
      }
    }
  }

  void Store(const Word* keys, LaneRange range, size_t begin, size_t end) const {
    if (lanes_.contiguous()) {
      for (size_t i = begin; i < end; ++i) out_[i] = Order::FromKey(keys[i]);
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      Word* row = out_ + i * lanes_.stride;
      for (size_t lane = range.begin; lane < range.end; ++lane) {
        row[lane] = Order::FromKey(keys[lane * distance_ + i]);
      }
    }
  }

  const Word* const in_;
  Word* const out_;
  const Lanes lanes_;
  const size_t distance_;
};

std::vector<Workspace> MakeWorkspaces(const LanePlan& plan, size_t bytes) {
  std::vector<Workspace> workspaces;
  for (size_t worker = 0; worker < plan.num_workers(); ++worker) workspaces.emplace_back(bytes);
  return workspaces;
}

// Rows of up to this size are sorted by counting, for each element, those that come before it: without branches, which
// would be predicted badly.
constexpr size_t kShortRow = 8;

template <typename Order, size_t size>
void SortShortRows(TaskRunner& runner, size_t num_rows, const SortOperand& operand) {
  using Word = typename Order::Word;
  ParallelRanges(runner, num_rows, kParallelElements / size, [&](size_t begin, size_t end) {
    const Word* in = static_cast<const Word*>(operand.in) + begin * size;
    Word* out = static_cast<Word*>(operand.out) + begin * size;
    for (size_t row = begin; row < end; ++row, in += size, out += size) {
      Word keys[size];
      uint32_t places[size] = {};
      for (size_t i = 0; i < size; ++i) keys[i] = Order::ToKey(in[i]);
      for (size_t i = 0; i < size; ++i) {
        for (size_t j = 0; j < i; ++j) {
          const uint32_t after = keys[j] > keys[i];
          places[j] += after;
          places[i] += 1 - after;
        }
      }
      for (size_t i = 0; i < size; ++i) out[places[i]] = in[i];
    }
  });
}

template <typename Order, size_t size = 1>
void SortShortRowsOf(TaskRunner& runner, const LaneShape& shape, const SortOperand& operand) {
  if constexpr (size < kShortRow) {
    if (shape.size > size) return SortShortRowsOf<Order, size + 1>(runner, shape, operand);
  }
  SortShortRows<Order, size>(runner, shape.outer, operand);
}

template <typename Order>
void SortValues(TaskRunner& runner, const LaneShape& shape, const SortOperand& operand) {
  if (shape.inner == 1 && shape.size <= kShortRow) {
    return SortShortRowsOf<Order>(runner, shape, operand);
  }
  using Sorter = ValueSorter<Order>;
  const LanePlan plan(runner, shape, Sorter::kBytesPerElement);
  const size_t bytes = Sorter::WorkspaceBytes(shape.size, plan.max_lanes());
  std::vector<Workspace> workspaces = MakeWorkspaces(plan, bytes);
  plan.Run(runner, [&](TaskRunner& lane_runner, size_t worker, const Lanes& lanes) {
    workspaces[worker].Reset();
    Sorter(operand, lanes).Run(lane_runner, workspaces[worker]);
  });
}

// ---------------------------------------------------------------------------------------------------
// Two arrays

// Fewer pairs are sorted faster through positions.
constexpr size_t kManyPairs = 1 << 15;

// Whether there is one key, and it and the other array fit into a pair.
bool ArePairs(const LaneShape& shape, std::span<const SortOperand> operands, size_t num_keys) {
  return operands.size() == 2 && num_keys == 1 && shape.inner == 1 && shape.size >= kManyPairs &&
         !IsComplex(operands[0].type) && SizeOf(operands[0].type) <= sizeof(uint32_t) &&
         SizeOf(operands[1].type) <= sizeof(uint32_t);
}

template <typename Order, typename Value>
void SortPairs(TaskRunner& runner, const LaneShape& shape, const SortOperand& key_operand,
               const SortOperand& value_operand) {
  using Word = typename Order::Word;
  const LanePlan plan(runner, shape, 2 * sizeof(uint64_t));
  const size_t bytes = 2 * Workspace::RoundUp(shape.size * sizeof(uint64_t));
  std::vector<Workspace> workspaces = MakeWorkspaces(plan, bytes);
  plan.Run(runner, [&](TaskRunner& lane_runner, size_t worker, const Lanes& lane) {
    workspaces[worker].Reset();
    uint64_t* pairs = workspaces[worker].Take<uint64_t>(lane.size);
    uint64_t* scratch = workspaces[worker].Take<uint64_t>(lane.size);
    const Word* keys = static_cast<const Word*>(key_operand.in) + lane.offset;
    const Value* values = static_cast<const Value*>(value_operand.in) + lane.offset;
    Word* keys_out = static_cast<Word*>(key_operand.out) + lane.offset;
    Value* values_out = static_cast<Value*>(value_operand.out) + lane.offset;
    SortPairsInParallel(
        lane_runner, pairs, scratch, lane.size, kBits<Word>,
        [&](uint64_t* to, size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) {
            to[i] = uint64_t{Order::ToKey(keys[i])} << 32 | values[i];
          }
        },
        [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) {
            keys_out[i] = Order::FromKey(static_cast<Word>(pairs[i] >> 32));
            values_out[i] = static_cast<Value>(pairs[i]);
          }
        });
    if constexpr (Order::kTies) RestoreTies<Order>(keys, keys_out, 1, lane.size);
  });
}

template <typename Value>
void SortPairsOf(TaskRunner& runner, const LaneShape& shape,
                 std::span<const SortOperand> operands) {
  VisitOrder(operands[0].type, [&](auto order) {
    using Order = decltype(order);
    if constexpr (sizeof(typename Order::Word) <= sizeof(uint32_t)) {
      SortPairs<Order, Value>(runner, shape, operands[0], operands[1]);
    }
  });
}

void SortPairs(TaskRunner& runner, const LaneShape& shape, std::span<const SortOperand> operands) {
  switch (SizeOf(operands[1].type)) {
    case 1:
      return SortPairsOf<uint8_t>(runner, shape, operands);
    case 2:
      return SortPairsOf<uint16_t>(runner, shape, operands);
    default:
      return SortPairsOf<uint32_t>(runner, shape, operands);
  }
}

// ---------------------------------------------------------------------------------------------------
// Several arrays

// An array of numbers to sort by: a real operand, or the real or the imaginary parts of a complex one.
struct Key {
  ElementType type;
  const void* data;  // of the first element
  size_t words;      // how many numbers an element has
  unsigned bits;
};

// Keys that are sorted by in one step, the first counting most.
using Step = std::vector<Key>;

std::vector<Key> Keys(std::span<const SortOperand> operands) {
  std::vector<Key> keys;
  for (const SortOperand& operand : operands) {
    const size_t words = IsComplex(operand.type) ? 2 : 1;
    const size_t size = SizeOf(operand.type) / words;
    const unsigned bits = operand.type == ElementType::kBool ? 1 : static_cast<unsigned>(8 * size);
    for (size_t word = 0; word < words; ++word) {
      const void* data = static_cast<const std::byte*>(operand.in) + word * size;
      keys.push_back({operand.type, data, words, bits});
    }
  }
  return keys;
}

unsigned Bits(const Step& keys) {
  unsigned bits = 0;
  for (const Key& key : keys) bits += key.bits;
  return bits;
}

// The steps to take, in their order: the keys that count least come first.
std::vector<Step> Steps(const std::vector<Key>& keys, unsigned position_bits) {
  std::vector<Step> steps;
  for (size_t i = keys.size(); i-- > 0;) {
    if (steps.empty() || Bits(steps.back()) + keys[i].bits + position_bits > kBits<Wide>) {
      steps.emplace_back();
    }
    steps.back().insert(steps.back().begin(), keys[i]);
  }
  return steps;
}

// Finds the order of the elements of lanes by their keys.
class PositionSorter {
 public:
  PositionSorter(const std::vector<Key>& keys, size_t size)
      : size_(size),
        position_bits_(static_cast<unsigned>(std::bit_width(size - 1))),
        steps_(Steps(keys, position_bits_)) {}

  size_t bytes_per_element() const {
    return 2 * packed_bytes() + 2 * sizeof(uint32_t);
  }

  size_t WorkspaceBytes(size_t max_lanes) const {
    return 2 * Workspace::RoundUp(size_ * packed_bytes()) +
           (max_lanes + 1) * Workspace::RoundUp(size_ * sizeof(uint32_t));
  }

  // Returns for each lane the positions of its elements in sorted order.
  LanePointers<uint32_t> Run(TaskRunner& runner, Workspace& workspace,
                                   const Lanes& lanes) const {
    std::byte* packed = workspace.Take<std::byte>(size_ * packed_bytes());
    std::byte* scratch = workspace.Take<std::byte>(size_ * packed_bytes());
    uint32_t* spare = workspace.Take<uint32_t>(size_);
    LanePointers<uint32_t> orders;
    for (size_t lane = 0; lane < lanes.count; ++lane) {
      uint32_t* order = nullptr;
      uint32_t* next = workspace.Take<uint32_t>(size_);
      for (const Step& step : steps_) {
        const LaneOfKeys of{step, lanes.offset + lane, lanes.stride, order};
        const unsigned bits = Bits(step) + position_bits_;
        if (bits <= 32) {
          SortStep<uint32_t>(runner, of, packed, scratch, next);
        } else if (bits <= 64) {
          SortStep<uint64_t>(runner, of, packed, scratch, next);
        } else {
          SortStep<Wide>(runner, of, packed, scratch, next);
        }
        uint32_t* free = order == nullptr ? spare : order;
        order = next;
        next = free;
      }
      // `next` and `spare` are the two that hold no order of this lane.
      spare = next;
      orders[lane] = order;
    }
    return orders;
  }

 private:
  struct LaneOfKeys {
    const Step& keys;
    size_t offset;
    size_t stride;
    const uint32_t* order;  // that of the step before, if any
  };

  size_t packed_bytes() const {
    unsigned bits = 0;
    for (const Step& step : steps_) bits = std::max(bits, Bits(step) + position_bits_);
    return bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
  }

  template <typename Packed>
  void SortStep(TaskRunner& runner, const LaneOfKeys& lane, std::byte* packed_memory,
                std::byte* scratch_memory, uint32_t* order) const {
    Packed* packed = reinterpret_cast<Packed*>(packed_memory);
    Packed* scratch = reinterpret_cast<Packed*>(scratch_memory);
    const unsigned key_bits = Bits(lane.keys);
    // Whole bytes save radix sort a pass.
    unsigned position_bits = (position_bits_ + 7) / 8 * 8;
    if (position_bits + key_bits > kBits<Packed>) position_bits = position_bits_;
    const uint64_t mask = (uint64_t{1} << position_bits) - 1;
    SortIntegersInParallel<Packed>(
        runner, packed, scratch, size_, position_bits, position_bits + key_bits,
        [&](Packed* to, size_t begin, size_t end) { Pack(lane, position_bits, to, begin, end); },
        [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) {
            const auto position = static_cast<uint32_t>(LowHalf(packed[i]) & mask);
            order[i] = lane.order == nullptr ? position : lane.order[position];
          }
        });
  }

  // By chunks that stay in the cache while one key after the other is appended.
  template <typename Packed>
  static void Pack(const LaneOfKeys& lane, unsigned position_bits, Packed* packed, size_t begin,
                   size_t end) {
    std::array<uint64_t, kChunk> words;
    for (size_t start = begin; start < end; start += kChunk) {
      const size_t stop = std::min(end, start + kChunk);
      for (const Key& key : lane.keys) {
        LoadWords(key, lane, start, stop, words.data());
        if (&key == &lane.keys.front()) {
          for (size_t i = start; i < stop; ++i) packed[i] = FromUint64<Packed>(words[i - start]);
        } else {
          for (size_t i = start; i < stop; ++i) {
            packed[i] = Append(packed[i], words[i - start], key.bits);
          }
        }
      }
      for (size_t i = start; i < stop; ++i) packed[i] = Append(packed[i], i, position_bits);
    }
  }

  static void LoadWords(const Key& key, const LaneOfKeys& lane, size_t begin, size_t end,
                        uint64_t* words) {
    VisitOrder(key.type, [&](auto order) {
      using Order = decltype(order);
      const auto* in = static_cast<const typename Order::Word*>(key.data) + lane.offset * key.words;
      const size_t stride = lane.stride * key.words;
      const uint32_t* places = lane.order;
      for (size_t i = begin; i < end; ++i) {
        const size_t place = places == nullptr ? i : places[i];
        words[i - begin] = Order::ToKey(in[place * stride]);
      }
    });
  }

  const size_t size_;
  const unsigned position_bits_;
  const std::vector<Step> steps_;
};

template <typename Word>
void Permute(const SortOperand& operand, const Lanes& lanes,
             const LanePointers<uint32_t>& orders, size_t begin, size_t end) {
  const Word* in = static_cast<const Word*>(operand.in) + lanes.offset;
  Word* out = static_cast<Word*>(operand.out) + lanes.offset;
  if (lanes.contiguous()) {
    const uint32_t* order = orders[0];
    for (size_t i = begin; i < end; ++i) out[i] = in[order[i]];
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    for (size_t lane = 0; lane < lanes.count; ++lane) {
      out[i * lanes.stride + lane] = in[orders[lane][i] * lanes.stride + lane];
    }
  }
}

void PermuteOperand(const SortOperand& operand, const Lanes& lanes,
                    const LanePointers<uint32_t>& orders, size_t begin, size_t end) {
  switch (SizeOf(operand.type)) {
    case 1:
      return Permute<uint8_t>(operand, lanes, orders, begin, end);
    case 2:
      return Permute<uint16_t>(operand, lanes, orders, begin, end);
    case 4:
      return Permute<uint32_t>(operand, lanes, orders, begin, end);
    case 8:
      return Permute<uint64_t>(operand, lanes, orders, begin, end);
    default:
      return Permute<Wide>(operand, lanes, orders, begin, end);
  }
}

void SortByKeys(TaskRunner& runner, const LaneShape& shape, std::span<const SortOperand> operands,
                size_t num_keys) {
  const PositionSorter sorter(Keys(operands.first(num_keys)), shape.size);
  const LanePlan plan(runner, shape, sorter.bytes_per_element());
  std::vector<Workspace> workspaces =
      MakeWorkspaces(plan, sorter.WorkspaceBytes(plan.max_lanes()));
  plan.Run(runner, [&](TaskRunner& lane_runner, size_t worker, const Lanes& lanes) {
    workspaces[worker].Reset();
    const auto orders = sorter.Run(lane_runner, workspaces[worker], lanes);
    ParallelRanges(lane_runner, lanes.size, kGrain, [&](size_t begin, size_t end) {
      for (const SortOperand& operand : operands) {
        PermuteOperand(operand, lanes, orders, begin, end);
      }
    });
  });
}

}  // namespace

void Sort(TaskRunner& runner, const LaneShape& shape, std::span<const SortOperand> operands,
          size_t num_keys) {
  if (shape.num_elements() == 0) return;
  if (operands.size() == 1 && !IsComplex(operands[0].type)) {
    VisitOrder(operands[0].type, [&](auto order) {
      SortValues<decltype(order)>(runner, shape, operands[0]);
    });
  } else if (ArePairs(shape, operands, num_keys)) {
    SortPairs(runner, shape, operands);
  } else {
    SortByKeys(runner, shape, operands, num_keys);
  }
}

}  // namespace jaxlib_ext
