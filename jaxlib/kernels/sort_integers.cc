#include "jaxlib/kernels/sort_integers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "jaxlib/kernels/vector_sort.h"

namespace jaxlib_ext {
namespace {

// Shorter arrays are sorted by comparing: counting digits costs more than it saves.
constexpr size_t kShort = 64;
// Radix sort by this many bits or fewer, two passes, is faster than any other, from kManyForRadix elements on.
constexpr unsigned kFewBits = 16;
constexpr size_t kManyForRadix = 2048;
// From so many elements on it is faster to distribute them among buckets first; but more than the second number do
// not fit into the processor's cache, where distributing is slow.
constexpr size_t kManyForBuckets = 1 << 16;
constexpr size_t kMostForBuckets = 1 << 19;
// The more buckets there are, the less is left to sort, and the slower they are filled; those that threads have in
// common save merging. Pairs need many.
constexpr unsigned kBucketBits = 8;
constexpr unsigned kCommonBucketBits = 9;
constexpr unsigned kPairBucketBits = 11;
// What is loaded is counted while it is in the nearest cache.
constexpr size_t kChunk = 1 << 12;
// An array is sorted by several threads if each gets this many elements.
constexpr size_t kParallelGrain = 1 << 15;

void CountingSort(uint8_t* data, size_t size) {
  std::array<size_t, 256> counts{};
  for (size_t i = 0; i < size; ++i) ++counts[data[i]];
  for (size_t value = 0; value < counts.size(); ++value) {
    std::memset(data, static_cast<int>(value), counts[value]);
    data += counts[value];
  }
}

// Sorts by digits of eight bits, the lowest first. Digits that all elements share take no pass.
template <typename Packed>
void RadixSort(Packed* data, Packed* scratch, size_t size, unsigned low_bit, unsigned high_bit) {
  using Counts = std::array<size_t, 256>;
  const unsigned first = low_bit / 8;
  const unsigned passes = (high_bit + 7) / 8 - first;
  std::array<Counts, sizeof(Packed)> counts;
  for (unsigned pass = 0; pass < passes; ++pass) counts[pass].fill(0);
  for (size_t i = 0; i < size; ++i) {
    const Packed x = data[i];
    for (unsigned pass = 0; pass < passes; ++pass) ++counts[pass][Digit(x, 8 * (first + pass))];
  }
  Packed* from = data;
  Packed* to = scratch;
  for (unsigned pass = 0; pass < passes; ++pass) {
    const unsigned shift = 8 * (first + pass);
    Counts& places = counts[pass];
    if (places[Digit(from[0], shift)] == size) continue;
    size_t sum = 0;
    for (size_t& place : places) sum += std::exchange(place, sum);
    for (size_t i = 0; i < size; ++i) {
      const Packed x = from[i];
      to[places[Digit(x, shift)]++] = x;
    }
    std::swap(from, to);
  }
  if (from != data) std::memcpy(data, from, size * sizeof(Packed));
}

// Buckets for integers that are spread evenly: by the highest bits in which they differ, those from `low_bit`.
template <typename Packed>
class Buckets {
 public:
  // From a sample of `size` integers: `get(i)` is one of them.
  template <typename Get>
  Buckets(size_t size, unsigned low_bit, unsigned most_bits, const Get& get) : one_(get(0)) {
    std::array<Packed, kSample> sample;
    const size_t step = size / kSample;
    for (size_t i = 0; i < kSample; ++i) {
      sample[i] = get(i * step + (i * 0x9E3779B1 >> 8) % step);  // at no regular distances
      differences_ |= sample[i] ^ one_;
    }
    const auto width = static_cast<unsigned>(std::bit_width(differences_));
    const unsigned bits = std::min(static_cast<unsigned>(std::bit_width(size)) / 2 + 1, most_bits);
    shift_ = std::max(low_bit, width - std::min(width, bits));
    mask_ = (size_t{1} << bits) - 1;
    std::array<size_t, kSample / kShare> counts{};
    for (const Packed x : sample) ++counts[Of(x) * counts.size() / count()];
    even_ = *std::max_element(counts.begin(), counts.end()) <= 4 * kShare;
  }

  // Whether the sample is spread evenly.
  bool even() const { return even_; }

  // Whether integers differ in no higher bits than the sample does.
  bool Fit(const Packed* data, size_t size) const {
    Packed differences = 0;
    for (size_t i = 0; i < size; ++i) differences |= data[i] ^ one_;
    return std::bit_width(differences) <= std::bit_width(differences_);
  }

  size_t count() const { return mask_ + 1; }
  // The integers of a bucket differ in lower bits only.
  unsigned shift() const { return shift_; }
  size_t Of(Packed x) const { return static_cast<size_t>(x >> shift_) & mask_; }

 private:
  static constexpr size_t kSample = 1024;
  static constexpr size_t kShare = 16;

  Packed one_;
  Packed differences_ = 0;
  unsigned shift_;
  size_t mask_;
  bool even_;
};

// Distributes integers among buckets, and has `sort(from, to, size, bits)` sort each: from one place to another,
// by the lowest `bits` bits, in which alone they differ. The order of equal ones is kept if it keeps it.
// Returns false, having done nothing, if that does not pay.
template <typename Packed, typename SortBucket>
bool SortInBuckets(Packed* data, Packed* scratch, size_t size, unsigned low_bit,
                   unsigned most_bits, const SortBucket& sort) {
  if (size < kManyForBuckets || size > kMostForBuckets) return false;
  const auto get = [data](size_t i) { return data[i]; };
  const Buckets<Packed> buckets(size, low_bit, most_bits, get);
  if (!buckets.even() || !buckets.Fit(data, size)) return false;
  std::array<uint32_t, size_t{1} << kPairBucketBits> places{};
  for (size_t i = 0; i < size; ++i) ++places[buckets.Of(data[i])];
  uint32_t sum = 0;
  for (size_t bucket = 0; bucket < buckets.count(); ++bucket) {
    sum += std::exchange(places[bucket], sum);
  }
  for (size_t i = 0; i < size; ++i) {
    const Packed x = data[i];
    scratch[places[buckets.Of(x)]++] = x;
  }
  size_t begin = 0;
  for (size_t bucket = 0; bucket < buckets.count(); ++bucket) {
    const size_t end = places[bucket];
    sort(scratch + begin, data + begin, end - begin, buckets.shift());
    begin = end;
  }
  return true;
}

struct Less {
  template <typename Packed>
  bool operator()(Packed x, Packed y) const {
    return x < y;
  }
};

struct LessUpperHalf {
  bool operator()(uint64_t x, uint64_t y) const { return x >> 32 < y >> 32; }
};

// How many of the first `count` elements of the merged array come from `a`.
template <typename Before, typename Packed>
size_t MergedFromFirst(const Packed* a, size_t a_size, const Packed* b, size_t b_size,
                       size_t count) {
  size_t low = count > b_size ? count - b_size : 0;
  size_t high = std::min(count, a_size);
  while (low < high) {
    const size_t mid = low + (high - low) / 2;
    if (Before()(b[count - mid - 1], a[mid])) {
      high = mid;
    } else {
      low = mid + 1;
    }
  }
  return low;
}

// Two sorted runs that are being merged.
template <typename Before, typename Packed>
struct Merging {
  const Packed* a;
  const Packed* a_end;
  const Packed* b;
  const Packed* b_end;
  Packed* out;

  // So many steps can be taken, whatever the data, before a run ends.
  size_t SafeSteps() const { return static_cast<size_t>(std::min(a_end - a, b_end - b)); }

  // Without a branch: which of the two comes next is a toss-up.
  void Step() {
    const Packed x = *a;
    const Packed y = *b;
    const bool from_b = Before()(y, x);
    *out++ = from_b ? y : x;
    a += !from_b;
    b += from_b;
  }

  void Finish() {
    while (a != a_end && b != b_end) Step();
    out = std::copy(a, a_end, out);
    std::copy(b, b_end, out);
  }
};

// Every step waits for the one before: four merges at a time keep the processor busy.
template <typename Before, typename Packed>
void Merge(const Packed* a, const Packed* a_end, const Packed* b, const Packed* b_end,
           Packed* out) {
  constexpr size_t kAtOnce = 4;
  const auto a_size = static_cast<size_t>(a_end - a);
  const auto b_size = static_cast<size_t>(b_end - b);
  std::array<Merging<Before, Packed>, kAtOnce> all;
  const Packed* a_next = a;
  const Packed* b_next = b;
  for (size_t i = 0; i < kAtOnce; ++i) {
    const size_t count = (a_size + b_size) * (i + 1) / kAtOnce;
    const Packed* a_stop = a + MergedFromFirst<Before>(a, a_size, b, b_size, count);
    const Packed* b_stop = b + (count - static_cast<size_t>(a_stop - a));
    all[i] = {a_next, a_stop, b_next, b_stop, out + (a_next - a) + (b_next - b)};
    a_next = a_stop;
    b_next = b_stop;
  }
  for (;;) {
    size_t steps = all[0].SafeSteps();
    for (const Merging<Before, Packed>& m : all) steps = std::min(steps, m.SafeSteps());
    if (steps == 0) break;
    auto local = all;  // in registers
    for (; steps > 0; --steps) {
      for (Merging<Before, Packed>& m : local) m.Step();
    }
    all = local;
  }
  for (Merging<Before, Packed>& m : all) m.Finish();
}

// Merges neighboring sorted runs of `from` into `to`; `ends` are where they end, and end up where the merged
// ones do. Every thread makes an equal part of each merged run, and calls `made` for it.
template <typename Before, typename Packed>
void MergeRuns(TaskRunner& runner, const Packed* from, Packed* to, std::vector<size_t>& ends,
                const std::function<void(size_t begin, size_t end)>& made) {
  struct Part {
    size_t a, a_end, b, b_end, out;
  };
  std::vector<Part> parts;
  std::vector<size_t> merged;
  size_t begin = 0;
  for (size_t run = 0; run < ends.size(); run += 2) {
    const size_t middle = ends[run];
    const size_t end = run + 1 < ends.size() ? ends[run + 1] : middle;
    const size_t size = end - begin;
    const size_t cuts = runner.num_threads();
    size_t a = begin;
    size_t b = middle;
    for (size_t cut = 1; cut <= cuts; ++cut) {
      const size_t upto = size * cut / cuts;
      const size_t a_next = begin + MergedFromFirst<Before>(from + begin, middle - begin,
                                                            from + middle, end - middle, upto);
      const size_t b_next = middle + upto - (a_next - begin);
      parts.push_back({a, a_next, b, b_next, a + b - middle});
      a = a_next;
      b = b_next;
    }
    merged.push_back(end);
    begin = end;
  }
  ParallelFor(runner, parts.size(), [&](size_t, size_t i) {
    const Part& p = parts[i];
    Merge<Before>(from + p.a, from + p.a_end, from + p.b, from + p.b_end, to + p.out);
    made(p.out, p.out + (p.a_end - p.a) + (p.b_end - p.b));
  });
  ends = std::move(merged);
}

}  // namespace

template <typename Packed>
void SortIntegers(Packed* data, Packed* scratch, size_t size, unsigned low_bit,
                  unsigned high_bit) {
  if (size < 2) return;
  if constexpr (sizeof(Packed) >= 4) {
    const bool radix = high_bit - low_bit <= kFewBits && size >= kManyForRadix;
    if (!radix && size <= VectorSortLimit()) {
      if constexpr (sizeof(Packed) <= 8) {
        const auto sort = [](Packed* from, Packed* to, size_t bucket_size, unsigned) {
          std::copy(from, from + bucket_size, to);
          VectorSort(to, bucket_size);
        };
        if (SortInBuckets(data, scratch, size, low_bit, kBucketBits, sort)) return;
      }
      VectorSort(data, size);
      return;
    }
  }
  if (size <= kShort) {
    std::sort(data, data + size);
  } else if constexpr (sizeof(Packed) == 1) {
    CountingSort(data, size);
  } else {
    RadixSort(data, scratch, size, low_bit, high_bit);
  }
}

namespace {

// Sorts parts by `sort(data, scratch, size)`, and merges them.
template <typename Before, typename Packed, typename SortPart>
void SortInParallel(TaskRunner& runner, Packed* data, Packed* scratch, size_t size,
                    const SortPart& sort,
                    const std::function<void(Packed*, size_t, size_t)>& load,
                    const std::function<void(size_t, size_t)>& store) {
  const size_t chunks = std::clamp<size_t>(size / kParallelGrain, 1, runner.num_threads());
  if (chunks == 1) {
    load(data, 0, size);
    sort(data, scratch, size);
    store(0, size);
    return;
  }
  std::vector<size_t> ends;
  for (size_t chunk = 1; chunk <= chunks; ++chunk) ends.push_back(size * chunk / chunks);
  // Every round of merging goes from one place to the other, the last one to `data`.
  const bool odd = std::bit_width(chunks - 1) % 2 == 1;
  Packed* from = odd ? scratch : data;
  Packed* to = odd ? data : scratch;
  ParallelFor(runner, chunks, [&](size_t, size_t chunk) {
    const size_t begin = chunk == 0 ? 0 : ends[chunk - 1];
    load(from, begin, ends[chunk]);
    sort(from + begin, to + begin, ends[chunk] - begin);
  });
  while (ends.size() > 1) {
    const bool last = ends.size() == 2;
    MergeRuns<Before>(runner, from, to, ends, [&](size_t begin, size_t end) {
      if (last) store(begin, end);
    });
    std::swap(from, to);
  }
}

// Sorts a bucket of pairs (sort_integers.h).
void SortBucketOfPairs(uint64_t* from, uint64_t* to, size_t size, unsigned bits) {
  constexpr size_t kMost = 2048;
  const auto place_bits = static_cast<unsigned>(std::bit_width(size));
  if (size > kMost || bits + place_bits > 64) {
    RadixSort(from, to, size, 32, bits);
    std::copy(from, from + size, to);
    return;
  }
  // What differs in the keys fits into an integer above the place in the bucket.
  std::array<uint32_t, kMost> packed;
  std::array<uint32_t, kMost> scratch;
  const uint64_t key_mask = (uint64_t{1} << bits) - 1;
  for (size_t i = 0; i < size; ++i) {
    packed[i] = static_cast<uint32_t>((from[i] & key_mask) >> 32 << place_bits | i);
  }
  SortIntegers(packed.data(), scratch.data(), size, place_bits, bits - 32 + place_bits);
  const uint32_t place_mask = (uint32_t{1} << place_bits) - 1;
  for (size_t i = 0; i < size; ++i) to[i] = from[packed[i] & place_mask];
}

// Distributes integers among buckets that the threads have in common, and sorts those: nothing is left to merge.
// Returns false if that does not pay.
template <typename Packed>
bool SortInCommonBuckets(TaskRunner& runner, Packed* data, Packed* scratch, size_t size,
                         unsigned low_bit,
                         const std::function<void(Packed*, size_t, size_t)>& load,
                         const std::function<void(size_t, size_t)>& store) {
  const size_t threads = runner.num_threads();
  if (threads == 1 || size < kManyForBuckets * threads || size > kMostForBuckets * threads ||
      size > VectorSortLimit()) {
    return false;
  }
  const Buckets<Packed> buckets(size, low_bit, kCommonBucketBits, [&](size_t i) {
    load(scratch, i, i + 1);
    return scratch[i];
  });
  if (!buckets.even()) return false;
  const auto begin = [&](size_t thread) { return size * thread / threads; };

  using Counts = std::array<uint32_t, size_t{1} << kCommonBucketBits>;
  std::vector<Counts> places(threads);
  std::atomic<bool> fit = true;
  ParallelFor(runner, threads, [&](size_t, size_t thread) {
    Counts counts{};
    for (size_t i = begin(thread); i < begin(thread + 1);) {
      const size_t end = std::min(i + kChunk, begin(thread + 1));
      load(scratch, i, end);
      if (!buckets.Fit(scratch + i, end - i)) fit = false;
      for (; i < end; ++i) ++counts[buckets.Of(scratch[i])];
    }
    places[thread] = counts;
  });
  if (!fit) return false;

  std::array<uint32_t, (size_t{1} << kCommonBucketBits) + 1> starts;
  uint32_t sum = 0;
  for (size_t bucket = 0; bucket < buckets.count(); ++bucket) {
    starts[bucket] = sum;
    for (Counts& of_thread : places) sum += std::exchange(of_thread[bucket], sum);
  }
  starts[buckets.count()] = sum;
  ParallelFor(runner, threads, [&](size_t, size_t thread) {
    Counts next = places[thread];
    for (size_t i = begin(thread); i < begin(thread + 1); ++i) {
      const Packed x = scratch[i];
      data[next[buckets.Of(x)]++] = x;
    }
  });
  const size_t groups = 8 * threads;
  ParallelFor(runner, groups, [&](size_t, size_t group) {
    const size_t end = buckets.count() * (group + 1) / groups;
    for (size_t bucket = buckets.count() * group / groups; bucket < end; ++bucket) {
      VectorSort(data + starts[bucket], starts[bucket + 1] - starts[bucket]);
      store(starts[bucket], starts[bucket + 1]);
    }
  });
  return true;
}

}  // namespace

template <typename Packed>
void SortIntegersInParallel(TaskRunner& runner, Packed* data, Packed* scratch, size_t size,
                            unsigned low_bit, unsigned high_bit,
                            const std::function<void(Packed*, size_t, size_t)>& load,
                            const std::function<void(size_t, size_t)>& store) {
  if constexpr (sizeof(Packed) == 4 || sizeof(Packed) == 8) {
    const bool radix = high_bit - low_bit <= kFewBits;
    if (!radix && SortInCommonBuckets(runner, data, scratch, size, low_bit, load, store)) return;
  }
  const auto sort = [&](Packed* part, Packed* part_scratch, size_t part_size) {
    SortIntegers(part, part_scratch, part_size, low_bit, high_bit);
  };
  SortInParallel<Less>(runner, data, scratch, size, sort, load, store);
}

void SortPairsInParallel(TaskRunner& runner, uint64_t* data, uint64_t* scratch, size_t size,
                         unsigned key_bits,
                         const std::function<void(uint64_t*, size_t, size_t)>& load,
                         const std::function<void(size_t, size_t)>& store) {
  const auto sort = [&](uint64_t* part, uint64_t* part_scratch, size_t part_size) {
    if (key_bits <= kFewBits ||
        !SortInBuckets(part, part_scratch, part_size, 32, kPairBucketBits, SortBucketOfPairs)) {
      RadixSort(part, part_scratch, part_size, 32, 32 + key_bits);
    }
  };
  SortInParallel<LessUpperHalf>(runner, data, scratch, size, sort, load, store);
}

#define JAXLIB_EXT_INSTANTIATE(Packed)                                                  \
  template void SortIntegers(Packed*, Packed*, size_t, unsigned, unsigned);             \
  template void SortIntegersInParallel(                                                 \
      TaskRunner&, Packed*, Packed*, size_t, unsigned, unsigned,                        \
      const std::function<void(Packed*, size_t, size_t)>&,                              \
      const std::function<void(size_t, size_t)>&);
JAXLIB_EXT_INSTANTIATE(uint8_t)
JAXLIB_EXT_INSTANTIATE(uint16_t)
JAXLIB_EXT_INSTANTIATE(uint32_t)
JAXLIB_EXT_INSTANTIATE(uint64_t)
JAXLIB_EXT_INSTANTIATE(Wide)
#undef JAXLIB_EXT_INSTANTIATE

}  // namespace jaxlib_ext
