// vector_erf_inv.h through Highway. This file is compiled once for each instruction set.

#include "jaxlib/kernels/vector_erf_inv.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "jaxlib/kernels/erf_inv_tables.h"

// Those that are left out differ from others in nothing that is used here.
#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_AVX3_SPR | HWY_AVX3_ZEN4 | HWY_SSE2 | HWY_SSSE3)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jaxlib/kernels/vector_erf_inv.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jaxlib_ext {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using Integers = hn::RebindToSigned<D>;
using V = hn::Vec<D>;

template <size_t size>
HWY_INLINE V Polynomial(V x, const float (&coefficients)[size]) {
  const D d;
  V out = hn::Set(d, coefficients[size - 1]);
  for (size_t i = size - 1; i-- > 0;) out = hn::MulAdd(out, x, hn::Set(d, coefficients[i]));
  return out;
}

// The even and the odd part apart, which is more accurate.
template <size_t size>
HWY_INLINE V EvenOdd(V x, const float (&coefficients)[size]) {
  static_assert(size % 2 == 0);
  const D d;
  const V square = hn::Mul(x, x);
  V even = hn::Set(d, coefficients[size - 2]);
  V odd = hn::Set(d, coefficients[size - 1]);
  for (size_t i = size - 2; i >= 2; i -= 2) {
    even = hn::MulAdd(even, square, hn::Set(d, coefficients[i - 2]));
    odd = hn::MulAdd(odd, square, hn::Set(d, coefficients[i - 1]));
  }
  return hn::MulAdd(x, odd, even);
}

// For numbers whose distance, 49/64 - x**2, is not negative.
HWY_INLINE V Center(V x, V distance) {
  const V rest = hn::Div(Polynomial(distance, kErfInvAbove), Polynomial(distance, kErfInvBelow));
  return hn::CopySign(hn::MulAdd(x, rest, x), x);  // also of -0.0
}

// The logarithm of positive normal numbers.
HWY_INLINE V Log2(V x) {
  const D d;
  const Integers integers;
  const auto bits = hn::BitCast(integers, x);
  const auto from_least = hn::Sub(bits, hn::Set(integers, 0x3F3504F3));  // sqrt(1/2), the least fraction
  const auto exponent = hn::And(from_least, hn::Set(integers, -(1 << 23)));
  const V fraction = hn::Sub(hn::BitCast(d, hn::Sub(bits, exponent)), hn::Set(d, 1.0f));
  const V whole = hn::ConvertTo(d, hn::ShiftRight<23>(from_least));
  return hn::MulAdd(fraction, EvenOdd(fraction, kErfInvLog2), whole);
}

HWY_INLINE V Tail(V x) {
  const D d;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1.0f);
  const V product = hn::Mul(hn::Sub(one, x), hn::Add(one, x));
  const V u = hn::Neg(Log2(product));
  const V ratio = hn::Div(EvenOdd(u, kErfInvTailAbove), EvenOdd(u, kErfInvTailBelow));
  const V at_end = hn::IfThenElse(hn::Eq(product, zero), hn::Set(d, std::numeric_limits<float>::infinity()),
                                  hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
  return hn::Mul(x, hn::IfThenElse(hn::Gt(product, zero), ratio, at_end));
}

// So many numbers at a time: first those of the center, and then, side by side, those of the tails.
constexpr size_t kBlock = 1024;

void ErfInvOfRange(const float* in, size_t size, float* out) {
  const D d;
  const Integers integers;
  const size_t lanes = hn::Lanes(d);
  float tails[kBlock + hn::MaxLanes(d)] = {};
  int32_t places[kBlock + hn::MaxLanes(d)];
  for (size_t first = 0; first < size; first += kBlock) {
    const float* from = in + first;
    float* to = out + first;
    const size_t count = std::min(kBlock, size - first);
    size_t num_tails = 0;
    // Returns the values in the center, and keeps the tails for later.
    const auto center = [&](V x, size_t i) HWY_ATTR {
      const V distance = hn::NegMulAdd(x, x, hn::Set(d, kErfInvCenter));
      const auto in_tail = hn::Lt(distance, hn::Zero(d));
      hn::CompressStore(hn::Iota(integers, static_cast<int32_t>(i)), hn::RebindMask(integers, in_tail),
                        integers, places + num_tails);
      num_tails += hn::CompressStore(x, in_tail, d, tails + num_tails);
      return Center(x, distance);
    };
    size_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(center(hn::LoadU(d, from + i), i), d, to + i);
    if (i < count) {
      const V x = hn::LoadN(d, from + i, count - i);  // zeros follow the last number
      hn::StoreN(center(x, i), d, to + i, count - i);
    }
    for (size_t j = 0; j < num_tails; j += lanes) {
      hn::StoreU(Tail(hn::LoadU(d, tails + j)), d, tails + j);
    }
    for (size_t j = 0; j < num_tails; ++j) to[places[j]] = tails[j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace jaxlib_ext
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jaxlib_ext {

HWY_EXPORT(ErfInvOfRange);

void VectorErfInv(const float* in, size_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(ErfInvOfRange)(in, size, out);
}

}  // namespace jaxlib_ext
#endif  // HWY_ONCE
