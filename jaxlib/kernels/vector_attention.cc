// vector_attention.h through Highway. This file is compiled once for each instruction set.

#include "jaxlib/kernels/vector_attention.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

// Those that are left out differ from others in nothing that is used here, or have vectors of unknown sizes, of which
// there are no arrays.
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_AVX3_SPR | HWY_AVX3_ZEN4 | HWY_SSE2 | HWY_SSSE3 | HWY_ALL_SVE | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jaxlib/kernels/vector_attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jaxlib_ext {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::CappedTag<T, kPanel<T>>;

// How many vectors make a row of a panel, and how many rows of the result are kept in registers.
template <typename T>
constexpr size_t kVectors = kPanel<T> / hn::MaxLanes(Tag<T>());

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_NEON_WITHOUT_AES
constexpr size_t kAccumulators = 24;  // of 32 registers
#else
constexpr size_t kAccumulators = 12;  // of 16
#endif

template <typename T>
constexpr size_t kMostRows = std::min<size_t>(kAccumulators / kVectors<T>, 12);

template <size_t rows, typename T>
HWY_INLINE void MultiplyRows(const TileProduct<T>& of, const T* a, const T* b, T* c) {
  constexpr size_t vectors = kVectors<T>;
  const Tag<T> d;
  constexpr size_t lanes = hn::MaxLanes(Tag<T>());
  hn::Vec<Tag<T>> sums[rows][vectors];
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < vectors; ++j) {
      sums[i][j] = of.accumulate ? hn::Load(d, c + i * of.c_row + j * lanes) : hn::Zero(d);
    }
  }
  for (size_t k = 0; k < of.depth; ++k) {
    hn::Vec<Tag<T>> row[vectors];
    for (size_t j = 0; j < vectors; ++j) row[j] = hn::Load(d, b + j * lanes);
    for (size_t i = 0; i < rows; ++i) {
      const auto factor = hn::Set(d, a[i * of.a_row]);
      for (size_t j = 0; j < vectors; ++j) sums[i][j] = hn::MulAdd(factor, row[j], sums[i][j]);
    }
    a += of.a_depth;
    b += kPanel<T>;
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < vectors; ++j) hn::Store(sums[i][j], d, c + i * of.c_row + j * lanes);
  }
}

// The rows that are left, fewer than `most`.
template <size_t most, typename T>
HWY_INLINE void MultiplyRest(const TileProduct<T>& of, size_t rows, const T* a, const T* b, T* c) {
  if constexpr (most > 1) {
    if (rows == most - 1) {
      MultiplyRows<most - 1>(of, a, b, c);
    } else {
      MultiplyRest<most - 1>(of, rows, a, b, c);
    }
  }
}

template <typename T>
HWY_INLINE void Multiply(const TileProduct<T>& of) {
  constexpr size_t most = kMostRows<T>;
  for (size_t panel = 0; panel < of.panels; ++panel) {
    const T* b = of.b + panel * of.b_panel;
    T* c = of.c + panel * kPanel<T>;
    size_t i = 0;
    for (; i + most <= of.rows; i += most) MultiplyRows<most>(of, of.a + i * of.a_row, b, c + i * of.c_row);
    MultiplyRest<most>(of, of.rows - i, of.a + i * of.a_row, b, c + i * of.c_row);
  }
}

// Calls `step(vector, place, count)` for each vector of `x`, the last of which may be filled with zeros.
template <typename T, typename Step>
HWY_INLINE void ForVectors(const T* x, size_t size, const Step& step) {
  const Tag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) step(hn::LoadU(d, x + i), i, lanes);
  if (i < size) step(hn::LoadN(d, x + i, size - i), i, size - i);
}

template <typename T>
HWY_INLINE void StoreFirst(hn::Vec<Tag<T>> x, T* to, size_t count) {
  const Tag<T> d;
  if (count == hn::Lanes(d)) {
    hn::StoreU(x, d, to);
  } else {
    hn::StoreN(x, d, to, count);
  }
}

// exp(x), where results below the normal numbers are zeros.
template <typename T>
HWY_INLINE hn::Vec<Tag<T>> Exponential(hn::Vec<Tag<T>> x) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> integers;
  constexpr bool is_single = sizeof(T) == 4;
  // ln(2) in two parts, the first of which has few digits.
  constexpr T high = is_single ? T(0.693359375) : T(0.693145751953125);
  constexpr T low = is_single ? T(-2.12194440054690583e-4) : T(1.42860682030941723e-6);
  constexpr T least = is_single ? T(-87.33) : T(-708.39);
  constexpr T most = is_single ? T(88.72) : T(709.78);
  const auto power = hn::Round(hn::Mul(x, hn::Set(d, T(1.442695040888963407))));
  auto rest = hn::NegMulAdd(power, hn::Set(d, high), x);
  rest = hn::NegMulAdd(power, hn::Set(d, low), rest);
  // Taylor's polynomial for at most ln(2) / 2.
  constexpr T inverse_factorials[] = {T(1.0 / 6227020800), T(1.0 / 479001600), T(1.0 / 39916800), T(1.0 / 3628800),
                                      T(1.0 / 362880),     T(1.0 / 40320),     T(1.0 / 5040),     T(1.0 / 720),
                                      T(1.0 / 120),        T(1.0 / 24),        T(1.0 / 6),        T(0.5),
                                      T(1),                T(1)};
  constexpr size_t first = is_single ? 6 : 0;
  auto sum = hn::Set(d, inverse_factorials[first]);
  for (size_t i = first + 1; i < 14; ++i) sum = hn::MulAdd(sum, rest, hn::Set(d, inverse_factorials[i]));
  // Half of the exponent at a time, as 2**128 is no number.
  constexpr int bits = is_single ? 23 : 52;
  constexpr int bias = is_single ? 127 : 1023;
  const auto whole = hn::ConvertTo(integers, power);
  const auto half = hn::ShiftRight<1>(whole);
  const auto scale = [&](auto exponent) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<bits>(hn::Add(exponent, hn::Set(integers, bias))));
  };
  const auto out = hn::Mul(hn::Mul(sum, scale(half)), scale(hn::Sub(whole, half)));
  const auto in_range = hn::IfThenElse(hn::Gt(x, hn::Set(d, most)), hn::Set(d, std::numeric_limits<T>::infinity()), out);
  return hn::IfThenElseZero(hn::Not(hn::Lt(x, hn::Set(d, least))), in_range);
}

template <typename T>
HWY_INLINE T ScaledMaximum(T* x, size_t size, T scale) {
  const Tag<T> d;
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto largest = lowest;
  ForVectors(x, size, [&](auto v, size_t i, size_t count) HWY_ATTR {
    const auto scaled = hn::Mul(v, hn::Set(d, scale));
    StoreFirst<T>(scaled, x + i, count);
    largest = hn::Max(largest, hn::IfThenElse(hn::FirstN(d, count), scaled, lowest));
  });
  return hn::ReduceMax(d, largest);
}

template <typename T>
HWY_INLINE T Exponentials(T* x, size_t size, T shift) {
  const Tag<T> d;
  auto sum = hn::Zero(d);
  ForVectors(x, size, [&](auto v, size_t i, size_t count) HWY_ATTR {
    const auto out = Exponential<T>(hn::Sub(v, hn::Set(d, shift)));
    StoreFirst<T>(out, x + i, count);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, count), out));
  });
  return hn::ReduceSum(d, sum);
}

template <typename T>
HWY_INLINE void LogitGradients(T* logits, T* cotangents, size_t size, T scale, T shift, T mean) {
  const Tag<T> d;
  ForVectors(logits, size, [&](auto logit, size_t i, size_t count) HWY_ATTR {
    const auto cotangent = hn::LoadN(d, cotangents + i, count);
    const auto weight = Exponential<T>(hn::MulSub(logit, hn::Set(d, scale), hn::Set(d, shift)));
    const auto scaled = hn::Mul(weight, hn::Set(d, scale));
    StoreFirst<T>(weight, logits + i, count);
    StoreFirst<T>(hn::Mul(scaled, hn::Sub(cotangent, hn::Set(d, mean))), cotangents + i, count);
  });
}

void MultiplyFloats(const TileProduct<float>& of) { Multiply(of); }
void MultiplyDoubles(const TileProduct<double>& of) { Multiply(of); }
float MaximumOfFloats(float* x, size_t size, float scale) { return ScaledMaximum(x, size, scale); }
double MaximumOfDoubles(double* x, size_t size, double scale) { return ScaledMaximum(x, size, scale); }
float ExponentialsOfFloats(float* x, size_t size, float shift) { return Exponentials(x, size, shift); }
double ExponentialsOfDoubles(double* x, size_t size, double shift) { return Exponentials(x, size, shift); }
void GradientsOfFloats(float* logits, float* cotangents, size_t size, float scale, float shift, float mean) {
  LogitGradients(logits, cotangents, size, scale, shift, mean);
}
void GradientsOfDoubles(double* logits, double* cotangents, size_t size, double scale, double shift, double mean) {
  LogitGradients(logits, cotangents, size, scale, shift, mean);
}

}  // namespace HWY_NAMESPACE
}  // namespace jaxlib_ext
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jaxlib_ext {

HWY_EXPORT(MultiplyFloats);
HWY_EXPORT(MultiplyDoubles);
HWY_EXPORT(MaximumOfFloats);
HWY_EXPORT(MaximumOfDoubles);
HWY_EXPORT(ExponentialsOfFloats);
HWY_EXPORT(ExponentialsOfDoubles);
HWY_EXPORT(GradientsOfFloats);
HWY_EXPORT(GradientsOfDoubles);

void VectorTileProduct(const TileProduct<float>& product) { HWY_DYNAMIC_DISPATCH(MultiplyFloats)(product); }
void VectorTileProduct(const TileProduct<double>& product) { HWY_DYNAMIC_DISPATCH(MultiplyDoubles)(product); }

float VectorScaledMaximum(float* x, size_t size, float scale) {
  return HWY_DYNAMIC_DISPATCH(MaximumOfFloats)(x, size, scale);
}
double VectorScaledMaximum(double* x, size_t size, double scale) {
  return HWY_DYNAMIC_DISPATCH(MaximumOfDoubles)(x, size, scale);
}

float VectorExponentials(float* x, size_t size, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExponentialsOfFloats)(x, size, shift);
}
double VectorExponentials(double* x, size_t size, double shift) {
  return HWY_DYNAMIC_DISPATCH(ExponentialsOfDoubles)(x, size, shift);
}

void VectorLogitGradients(float* logits, float* cotangents, size_t size, float scale, float shift, float mean) {
  HWY_DYNAMIC_DISPATCH(GradientsOfFloats)(logits, cotangents, size, scale, shift, mean);
}
void VectorLogitGradients(double* logits, double* cotangents, size_t size, double scale, double shift, double mean) {
  HWY_DYNAMIC_DISPATCH(GradientsOfDoubles)(logits, cotangents, size, scale, shift, mean);
}

}  // namespace jaxlib_ext
#endif  // HWY_ONCE
