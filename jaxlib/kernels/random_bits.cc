#include "jaxlib/kernels/random_bits.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace jaxlib_ext {
namespace {

// Numbers that are encrypted together: with every rotation by a constant, the loop over them is done by
// vector instructions.
constexpr size_t kBlock = 64;
constexpr size_t kParallelElements = 1 << 13;
constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

template <int rotation>
[[gnu::always_inline]] inline void Round(uint32_t* high, uint32_t* low) {
  for (size_t i = 0; i < kBlock; ++i) {
    high[i] += low[i];
    low[i] = std::rotl(low[i], rotation) ^ high[i];
  }
}

template <size_t group>
[[gnu::always_inline]] inline void Group(uint32_t* high, uint32_t* low, const uint32_t* key) {
  Round<kRotations[group % 2][0]>(high, low);
  Round<kRotations[group % 2][1]>(high, low);
  Round<kRotations[group % 2][2]>(high, low);
  Round<kRotations[group % 2][3]>(high, low);
  for (size_t i = 0; i < kBlock; ++i) {
    high[i] += key[(group + 1) % 3];
    low[i] += key[(group + 2) % 3] + static_cast<uint32_t>(group + 1);
  }
}

// Numbers from `first` on; `first` is a multiple of the size of a block, so they have the same high word.
template <typename T>
[[gnu::always_inline]] inline void Block(const uint32_t* key, uint64_t first, T* out) {
  uint32_t high[kBlock];
  uint32_t low[kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    high[i] = static_cast<uint32_t>(first >> 32) + key[0];
    low[i] = static_cast<uint32_t>(first) + static_cast<uint32_t>(i) + key[1];
  }
  Group<0>(high, low, key);
  Group<1>(high, low, key);
  Group<2>(high, low, key);
  Group<3>(high, low, key);
  Group<4>(high, low, key);
  for (size_t i = 0; i < kBlock; ++i) {
    if constexpr (sizeof(T) == 8) {
      out[i] = static_cast<T>(high[i]) << 32 | low[i];
    } else {
      out[i] = static_cast<T>(high[i] ^ low[i]);
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void Elements(const uint32_t* key, size_t begin, size_t end, T* out) {
  T block[kBlock];
  for (size_t first = begin / kBlock * kBlock; first < end; first += kBlock) {
    if (first >= begin && first + kBlock <= end) {
      Block(key, first, out + first);
    } else {
      Block(key, first, block);
      const size_t from = std::max(first, begin);
      std::copy(block + (from - first), block + (std::min(first + kBlock, end) - first), out + from);
    }
  }
}

template <typename T>
void ElementsPortable(const uint32_t* key, size_t begin, size_t end, T* out) {
  Elements(key, begin, end, out);
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2")]] void ElementsAvx2(const uint32_t* key, size_t begin, size_t end, T* out) {
  Elements(key, begin, end, out);
}

template <typename T>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]] void ElementsAvx512(
    const uint32_t* key, size_t begin, size_t end, T* out) {
  Elements(key, begin, end, out);
}

enum class Instructions { kPortable, kAvx2, kAvx512 };

// What the processor has and the operating system saves. The compiler's `__builtin_cpu_supports` needs a runtime
// library that asks the processor, and with Zig's answers no to everything.
Instructions Supported() {
  uint32_t a, b, c, d;
  constexpr uint32_t kXgetbvAndAvx = 1u << 27 | 1u << 28;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kXgetbvAndAvx) != kXgetbvAndAvx) {
    return Instructions::kPortable;
  }
  uint32_t saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr uint32_t kYmm = 0x6;
  constexpr uint32_t kZmm = kYmm | 0xe0;
  if ((saved & kYmm) != kYmm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    return Instructions::kPortable;
  }
  constexpr uint32_t kAvx2 = 1u << 5;
  constexpr uint32_t kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if ((b & kAvx512) == kAvx512 && (saved & kZmm) == kZmm) return Instructions::kAvx512;
  return (b & kAvx2) != 0 ? Instructions::kAvx2 : Instructions::kPortable;
}

template <typename T>
auto Fastest() {
  static const Instructions supported = Supported();
  switch (supported) {
    case Instructions::kAvx512:
      return ElementsAvx512<T>;
    case Instructions::kAvx2:
      return ElementsAvx2<T>;
    default:
      return ElementsPortable<T>;
  }
}
#else
template <typename T>
auto Fastest() {
  return ElementsPortable<T>;
}
#endif

template <typename T>
void BitsOf(TaskRunner& runner, const uint32_t* keys, size_t num_keys, size_t size, T* out) {
  const auto elements = Fastest<T>();
  // All results in one row, of which a range may be those of many keys.
  ParallelRanges(runner, num_keys * size, kParallelElements, [&](size_t begin, size_t end) {
    while (begin < end) {
      const size_t row = begin / size;
      const size_t stop = std::min(end, (row + 1) * size);
      const uint32_t* words = keys + 2 * row;
      const uint32_t key[3] = {words[0], words[1], words[0] ^ words[1] ^ 0x1BD11BDAu};
      elements(key, begin - row * size, stop - row * size, out + row * size);
      begin = stop;
    }
  });
}

}  // namespace

void ThreefryBits(TaskRunner& runner, const uint32_t* keys, size_t num_keys, size_t size,
                  size_t bytes, void* out) {
  if (num_keys == 0 || size == 0) return;
  switch (bytes) {
    case 1:
      return BitsOf(runner, keys, num_keys, size, static_cast<uint8_t*>(out));
    case 2:
      return BitsOf(runner, keys, num_keys, size, static_cast<uint16_t*>(out));
    case 4:
      return BitsOf(runner, keys, num_keys, size, static_cast<uint32_t*>(out));
    default:
      return BitsOf(runner, keys, num_keys, size, static_cast<uint64_t*>(out));
  }
}

}  // namespace jaxlib_ext
