// The elements of sparse matrices and of what they are multiplied with.

#ifndef JAXLIB_KERNELS_FACTORS_H_
#define JAXLIB_KERNELS_FACTORS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/numbers.h"

namespace jaxlib_ext {

// What matrices of all formats have. Indices need not fit: a negative one counts from the end, and nothing is written out
// of bounds.
struct SparseMatrix {
  ElementType type;  // one that VisitFactor takes
  bool wide;         // indices are int64, not int32
  size_t num_elements;
  size_t num_rows;
  size_t num_columns;
  const void* data;
};

// std::complex looks for infinities in products, as XLA does not.
template <typename Part>
struct Complex {
  Part real, imag;

  Complex& operator+=(const Complex& other) {
    real += other.real;
    imag += other.imag;
    return *this;
  }
};

template <typename Part>
Complex<Part> operator*(const Complex<Part>& a, const Complex<Part>& b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}

// Small unsigned integers become signed ones in products, which can overflow.
template <typename T>
T Times(T a, T b) {
  return a * b;
}
template <>
inline uint8_t Times(uint8_t a, uint8_t b) {
  return static_cast<uint8_t>(uint32_t{a} * b);
}
template <>
inline uint16_t Times(uint16_t a, uint16_t b) {
  return static_cast<uint16_t>(uint32_t{a} * b);
}

// The place for an index, of which a negative one counts from the end; `size` if there is none.
template <typename Index>
size_t Place(Index index, size_t size) {
  if (index >= 0) return std::min(static_cast<size_t>(index), size);
  const int64_t from_end = static_cast<int64_t>(index) + static_cast<int64_t>(size);
  return from_end < 0 ? size : static_cast<size_t>(from_end);
}

// The place that is read for an index, which beyond an end is that end. `size` is not zero.
template <typename Index>
size_t Clamped(Index index, size_t size) {
  if (static_cast<size_t>(index) < size) return static_cast<size_t>(index);
  if (index >= 0) return size - 1;
  const int64_t from_end = static_cast<int64_t>(index) + static_cast<int64_t>(size);
  return from_end < 0 ? 0 : static_cast<size_t>(from_end);
}

// Calls `visit` with a factor of this type, without a sign if it is an integer: products wrap around, so that the sign
// does not matter. Returns false if there are no products of the type.
template <typename Visit>
bool VisitFactor(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::kComplex64:
      visit(Complex<float>{});
      return true;
    case ElementType::kComplex128:
      visit(Complex<double>{});
      return true;
    default:
      return VisitNumber(type, [&](auto number) {
        using T = decltype(number);
        if constexpr (std::is_integral_v<T>) {
          visit(std::make_unsigned_t<T>{});
        } else {
          visit(number);
        }
      });
  }
}

// Calls `visit` with a factor of this type, and an index: int64 where `wide`, or int32.
template <typename Visit>
bool VisitFactorAndIndex(ElementType type, bool wide, const Visit& visit) {
  return VisitFactor(type, [&](auto factor) {
    if (wide) {
      visit(factor, int64_t{});
    } else {
      visit(factor, int32_t{});
    }
  });
}

// Whether sparse matrices can have elements of the type: integers, and floats of at least 32 bits, complex too.
inline bool IsFactor(ElementType type) {
  return VisitFactor(type, [](auto) {});
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_FACTORS_H_
