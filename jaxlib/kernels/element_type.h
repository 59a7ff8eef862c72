// The types of array elements, and their order.

#ifndef JAXLIB_KERNELS_ELEMENT_TYPE_H_
#define JAXLIB_KERNELS_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace jaxlib_ext {

enum class ElementType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E3M4,
  kFloat8E4M3,
  kFloat8E4M3Fn,
  kFloat8E4M3B11Fnuz,
  kFloat8E4M3Fnuz,
  kFloat8E5M2,
  kFloat8E5M2Fnuz,
  kFloat8E8M0Fnu,
};

inline bool IsComplex(ElementType type) {
  return type == ElementType::kComplex64 || type == ElementType::kComplex128;
}

// An order maps the bits of an element to an unsigned integer, its key: smaller keys come first.
//
// `kTies` tells whether elements with different bits can have one key. If not, `FromKey` inverts `ToKey`;
// if so, it gives an element that has the key.
// `ToTotalKey` is a finer order, which tells 0.0 from -0.0 and has NaNs beyond the infinity of their sign.

template <typename Word>
inline constexpr Word kSignBit = static_cast<Word>(Word{1} << (std::numeric_limits<Word>::digits - 1));

template <typename Bits>
struct UnsignedOrder {
  using Word = Bits;
  static constexpr bool kTies = false;
  static Word ToKey(Word bits) { return bits; }
  static Word ToTotalKey(Word bits) { return bits; }
  static Word FromKey(Word key) { return key; }
};

template <typename Bits>
struct SignedOrder {
  using Word = Bits;
  static constexpr bool kTies = false;
  static Word ToKey(Word bits) { return bits ^ kSignBit<Word>; }
  static Word ToTotalKey(Word bits) { return ToKey(bits); }
  static Word FromKey(Word key) { return key ^ kSignBit<Word>; }
};

// Floats with a sign bit. `kLargest` are the bits of the greatest number, infinity if there is one; greater
// ones are NaNs. Numbers below `kSmallest` count as zero: XLA's programs on CPUs do not see the subnormal
// numbers of float32, float64 and bfloat16.
// All NaNs are equal and come last; 0.0 and -0.0 are equal. In the total order NaNs with other bits are
// different where `kManyNans`: XLA compares other types only once it has converted them.
template <typename Bits, Bits kLargest, Bits kSmallest, bool kManyNans = false>
struct FloatOrder {
  using Word = Bits;
  static constexpr bool kTies = true;
  static constexpr Word kZeroKey = kSignBit<Word>;
  static constexpr Word kNanKey = static_cast<Word>(~Word{0});

  static Word ToKey(Word bits) {
    const Word magnitude = bits & static_cast<Word>(~kSignBit<Word>);
    Word key = InOrder(bits);
    key = magnitude < kSmallest ? kZeroKey : key;
    return magnitude > kLargest ? kNanKey : key;
  }
  static Word ToTotalKey(Word bits) {
    if constexpr (kManyNans) return InOrder(bits);
    const Word magnitude = bits & static_cast<Word>(~kSignBit<Word>);
    return magnitude > kLargest ? static_cast<Word>(~SignMask(bits)) : InOrder(bits);
  }
  static Word FromKey(Word key) {
    return key ^ (SignMask(static_cast<Word>(~key)) | kSignBit<Word>);
  }

 private:
  // Turns the order of negative numbers around, and puts them below others.
  static Word InOrder(Word bits) { return bits ^ (SignMask(bits) | kSignBit<Word>); }

  // All ones if the sign bit is set: arithmetic, which compilers turn into vector instructions.
  static Word SignMask(Word bits) {
    return static_cast<Word>(-static_cast<Word>(bits >> (std::numeric_limits<Word>::digits - 1)));
  }
};

// Floats of eight bits whose one NaN has the bits that are -0.0 elsewhere: it comes last, but in the total
// order it is negative.
struct FnuzOrder {
  using Word = uint8_t;
  static constexpr bool kTies = false;
  static Word ToKey(Word bits) {
    if (bits == 0x80) return 0xFF;
    return static_cast<Word>(bits & 0x80 ? ~bits : bits + 0x7F);
  }
  static Word ToTotalKey(Word bits) {
    return static_cast<Word>(bits & 0x80 ? (0x100 - bits) & 0x7F : bits + 0x80);
  }
  static Word FromKey(Word key) {
    if (key == 0xFF) return 0x80;
    return static_cast<Word>(key < 0x7F ? ~key : key - 0x7F);
  }
};

using Float32Order = FloatOrder<uint32_t, 0x7F800000, 0x00800000, true>;
using Float64Order = FloatOrder<uint64_t, 0x7FF0000000000000, 0x0010000000000000, true>;

// Returns `visit(order)`. Complex numbers have two keys: this is for the type of their parts.
template <typename Visit>
decltype(auto) VisitOrder(ElementType type, Visit&& visit) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUint8:
    case ElementType::kFloat8E8M0Fnu:  // no sign, and its NaN has the greatest bits
      return visit(UnsignedOrder<uint8_t>());
    case ElementType::kUint16:
      return visit(UnsignedOrder<uint16_t>());
    case ElementType::kUint32:
      return visit(UnsignedOrder<uint32_t>());
    case ElementType::kUint64:
      return visit(UnsignedOrder<uint64_t>());
    case ElementType::kInt8:
      return visit(SignedOrder<uint8_t>());
    case ElementType::kInt16:
      return visit(SignedOrder<uint16_t>());
    case ElementType::kInt32:
      return visit(SignedOrder<uint32_t>());
    case ElementType::kInt64:
      return visit(SignedOrder<uint64_t>());
    case ElementType::kFloat16:
      return visit(FloatOrder<uint16_t, 0x7C00, 1, true>());
    case ElementType::kBfloat16:
      return visit(FloatOrder<uint16_t, 0x7F80, 0x0080>());
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return visit(Float32Order());
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return visit(Float64Order());
    case ElementType::kFloat8E3M4:
      return visit(FloatOrder<uint8_t, 0x70, 1>());
    case ElementType::kFloat8E4M3:
      return visit(FloatOrder<uint8_t, 0x78, 1>());
    case ElementType::kFloat8E4M3Fn:
      return visit(FloatOrder<uint8_t, 0x7E, 1>());
    case ElementType::kFloat8E5M2:
      return visit(FloatOrder<uint8_t, 0x7C, 1>());
    case ElementType::kFloat8E4M3B11Fnuz:
    case ElementType::kFloat8E4M3Fnuz:
    case ElementType::kFloat8E5M2Fnuz:
      break;
  }
  return visit(FnuzOrder());
}

// In bytes.
inline size_t SizeOf(ElementType type) {
  const size_t part = VisitOrder(type, [](auto order) { return sizeof(typename decltype(order)::Word); });
  return IsComplex(type) ? 2 * part : part;
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_ELEMENT_TYPE_H_
