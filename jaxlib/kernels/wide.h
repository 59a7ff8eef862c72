// Integers of 128 bits.

#ifndef JAXLIB_KERNELS_WIDE_H_
#define JAXLIB_KERNELS_WIDE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace jaxlib_ext {

// Laid out as Highway sorts them: the lower half first.
struct alignas(16) Wide {
  uint64_t low;
  uint64_t high;

  friend bool operator==(const Wide&, const Wide&) = default;
  friend bool operator<(const Wide& a, const Wide& b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
  }
};

// What sorting needs to know of the integers it packs keys and positions into.

template <typename Packed>
inline constexpr unsigned kBits = std::numeric_limits<Packed>::digits;
template <>
inline constexpr unsigned kBits<Wide> = 128;

// The eight bits from `shift`, a multiple of eight.
template <typename Packed>
size_t Digit(Packed x, unsigned shift) {
  return static_cast<size_t>(x >> shift) & 0xFF;
}
template <>
inline size_t Digit(Wide x, unsigned shift) {
  return shift < 64 ? Digit(x.low, shift) : Digit(x.high, shift - 64);
}

// `x` with room made for `bits` bits, fewer than all, which those of `lower` fill.
template <typename Packed>
Packed Append(Packed x, uint64_t lower, unsigned bits) {
  return static_cast<Packed>((x << bits) | static_cast<Packed>(lower));
}
template <>
inline Wide Append(Wide x, uint64_t lower, unsigned bits) {
  if (bits == 0) return x;
  if (bits >= 64) return {lower, x.low};  // more than 64 are never appended
  return {(x.low << bits) | lower, (x.high << bits) | (x.low >> (64 - bits))};
}

template <typename Packed>
uint64_t LowHalf(Packed x) {
  return x;
}
template <>
inline uint64_t LowHalf(Wide x) {
  return x.low;
}

template <typename Packed>
Packed FromUint64(uint64_t x) {
  return static_cast<Packed>(x);
}
template <>
inline Wide FromUint64(uint64_t x) {
  return {x, 0};
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_WIDE_H_
