#include "jaxlib/kernels/top_k.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "jaxlib/kernels/lanes.h"
#include "jaxlib/kernels/sort_integers.h"
#include "jaxlib/kernels/wide.h"
#include "jaxlib/kernels/workspace.h"

namespace jaxlib_ext {
namespace {

constexpr unsigned kPositionBits = 32;
// Elements are compared with the threshold in blocks of this size, as vector instructions do that fast.
constexpr size_t kBlock = 256;
constexpr size_t kMinCandidates = 64;
// A thread gets a part of a row if it has this many elements.
constexpr size_t kParallelGrain = 1 << 17;

// Packs an element and its position so that the smallest integer is the first result.
template <typename Order>
struct Candidates {
  using Word = typename Order::Word;
  using Packed = std::conditional_t<sizeof(Word) == 8, Wide, uint64_t>;
  // With a sign, as many processors compare vectors of such only.
  using Signed = std::make_signed_t<Word>;

  static constexpr unsigned kKeyBits = 8 * sizeof(Word);

  static Packed Pack(Word bits, size_t position) {
    const Word key = static_cast<Word>(~Order::ToTotalKey(bits));
    return Append(FromUint64<Packed>(key), position, kPositionBits);
  }
  static size_t Position(Packed packed) {
    return static_cast<size_t>(LowHalf(packed) & ((uint64_t{1} << kPositionBits) - 1));
  }
  static Signed Rank(Word bits) {
    return static_cast<Signed>(Order::ToTotalKey(bits) ^ kSignBit<Word>);
  }
};

// Finds the first `k` of the elements from `begin` to `end` of a row and writes them to `found`, in any
// order. `found` has room for `capacity`, more than `k`. Returns how many there are.
template <typename Order>
size_t Select(const typename Order::Word* row, size_t begin, size_t end, size_t k, size_t capacity,
              typename Candidates<Order>::Packed* found) {
  using C = Candidates<Order>;
  using Word = typename C::Word;
  size_t count = 0;
  const auto add = [&](size_t i) { found[count++] = C::Pack(row[i], i); };
  // Those behind equal ones are no candidates: they come later.
  typename C::Signed threshold = 0;
  const auto thin_out = [&] {
    std::nth_element(found, found + (k - 1), found + count);
    count = k;
    threshold = C::Rank(row[C::Position(found[k - 1])]);
  };
  size_t i = begin;
  for (const size_t start = std::min(end, begin + capacity); i < start; ++i) add(i);
  if (count > k) thin_out();
  for (; i < end; i += kBlock) {
    const size_t block_end = std::min(end, i + kBlock);
    Word any = 0;  // as wide as an element, for vector instructions
    for (size_t j = i; j < block_end; ++j) any |= C::Rank(row[j]) > threshold;
    if (!any) continue;
    for (size_t j = i; j < block_end; ++j) {
      if (C::Rank(row[j]) <= threshold) continue;
      add(j);
      if (count == capacity) thin_out();
    }
  }
  if (count > k) thin_out();
  return count;
}

template <typename Order>
class RowTopK {
 public:
  using C = Candidates<Order>;
  using Word = typename C::Word;
  using Packed = typename C::Packed;

  RowTopK(size_t size, size_t k)
      : size_(size),
        k_(k),
        // Where many are wanted, sorting all is faster.
        sort_all_(k > size / 8),
        // Room for more candidates makes it rare that they have to be thinned out.
        capacity_(sort_all_ ? size : std::max(2 * k, kMinCandidates)) {}

  size_t WorkspaceBytes(size_t parts) const {
    return Workspace::RoundUp((parts + 1) * capacity_ * sizeof(Packed));
  }

  // With as many parts as the workspace was made for, or fewer.
  void Run(TaskRunner& runner, size_t parts, Workspace& workspace, const Word* row, Word* values,
           int32_t* indices) const {
    Packed* found = workspace.Take<Packed>((parts + 1) * capacity_);
    Packed* scratch = found + parts * capacity_;
    const auto store = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < std::min(end, k_); ++i) {
        const size_t position = C::Position(found[i]);
        values[i] = row[position];
        indices[i] = static_cast<int32_t>(position);
      }
    };
    if (sort_all_) {
      const auto load = [&](Packed* to, size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) to[i] = C::Pack(row[i], i);
      };
      SortIntegersInParallel<Packed>(runner, found, scratch, size_, kPositionBits,
                                     kPositionBits + C::kKeyBits, load, store);
      return;
    }
    if (parts == 1) {
      Select<Order>(row, 0, size_, k_, capacity_, found);
    } else {
      SelectInParallel(runner, parts, row, found);
    }
    SortIntegers(found, scratch, k_);
    store(0, k_);
  }

 private:
  void SelectInParallel(TaskRunner& runner, size_t parts, const Word* row, Packed* found) const {
    std::vector<size_t> counts(parts);
    ParallelFor(runner, parts, [&](size_t, size_t part) {
      counts[part] = Select<Order>(row, size_ * part / parts, size_ * (part + 1) / parts, k_,
                                   capacity_, found + part * capacity_);
    });
    size_t count = counts[0];
    for (size_t part = 1; part < parts; ++part) {
      const Packed* more = found + part * capacity_;
      std::copy(more, more + counts[part], found + count);
      count += counts[part];
    }
    std::nth_element(found, found + (k_ - 1), found + count);
  }

  const size_t size_;
  const size_t k_;
  const bool sort_all_;
  const size_t capacity_;
};

template <typename Order>
void TopKOf(TaskRunner& runner, const typename Order::Word* in, size_t num_rows, size_t size,
            size_t k, typename Order::Word* values, int32_t* indices) {
  const RowTopK<Order> row_top_k(size, k);
  const LaneShape shape{num_rows, size, 1};
  const LanePlan plan(runner, shape, sizeof(uint64_t));
  const size_t most_parts = plan.num_workers() > 1 ? 1 : runner.num_threads();
  const size_t parts = std::clamp<size_t>(size / std::max(kParallelGrain, 4 * k), 1, most_parts);
  std::vector<Workspace> workspaces;
  for (size_t worker = 0; worker < plan.num_workers(); ++worker) {
    workspaces.emplace_back(row_top_k.WorkspaceBytes(parts));
  }
  plan.Run(runner, [&](TaskRunner& row_runner, size_t worker, const Lanes& lane) {
    workspaces[worker].Reset();
    const size_t row = lane.offset / size;
    row_top_k.Run(row_runner, parts, workspaces[worker], in + lane.offset, values + row * k,
                  indices + row * k);
  });
}

}  // namespace

void TopK(TaskRunner& runner, ElementType type, const void* in, size_t num_rows, size_t size,
          size_t k, void* values, int32_t* indices) {
  if (num_rows == 0 || k == 0) return;
  VisitOrder(type, [&](auto order) {
    using Order = decltype(order);
    using Word = typename Order::Word;
    TopKOf<Order>(runner, static_cast<const Word*>(in), num_rows, size, k,
                  static_cast<Word*>(values), indices);
  });
}

}  // namespace jaxlib_ext
