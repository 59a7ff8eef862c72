// vector_elementwise.h through Highway. This file is compiled once for each instruction set.

#include "jaxlib/kernels/vector_elementwise.h"

// Those that are left out differ from others in nothing that is used here.
#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_AVX3_SPR | HWY_AVX3_ZEN4 | HWY_SSE2 | HWY_SSSE3)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jaxlib/kernels/vector_elementwise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jaxlib_ext {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Add {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Subtract {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const { return hn::Sub(a, b); }
};
struct Multiply {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const { return hn::Mul(a, b); }
};
struct Divide {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const { return hn::Div(a, b); }
};
// An instruction for the larger number gives any of two zeros, and either number if one is a NaN. Sums with NaNs are NaNs.
struct Maximum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const V ordered = hn::And(hn::Max(a, b), hn::Max(b, a));
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), ordered);
  }
};
struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const V ordered = hn::Or(hn::Min(a, b), hn::Min(b, a));
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), ordered);
  }
};
struct Negate {
  template <class V>
  HWY_INLINE V operator()(V a) const { return hn::Neg(a); }
};
struct Absolute {
  template <class V>
  HWY_INLINE V operator()(V a) const { return hn::Abs(a); }
};
struct SquareRoot {
  template <class V>
  HWY_INLINE V operator()(V a) const { return hn::Sqrt(a); }
};

template <class Operation, typename T>
HWY_INLINE void Binary(const T* a, const T* b, size_t size, T* out) {
  const hn::ScalableTag<T> d;
  const Operation operation;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    hn::StoreU(operation(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  if (i == size) return;
  hn::StoreN(operation(hn::LoadN(d, a + i, size - i), hn::LoadN(d, b + i, size - i)), d, out + i, size - i);
}

template <class Operation, typename T>
HWY_INLINE void Unary(const T* a, size_t size, T* out) {
  const hn::ScalableTag<T> d;
  const Operation operation;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) hn::StoreU(operation(hn::LoadU(d, a + i)), d, out + i);
  if (i == size) return;
  hn::StoreN(operation(hn::LoadN(d, a + i, size - i)), d, out + i, size - i);
}

template <typename T>
HWY_INLINE void Apply(ElementwiseOperation operation, const T* a, const T* b, size_t size, T* out) {
  switch (operation) {
    case ElementwiseOperation::kAdd:
      return Binary<Add>(a, b, size, out);
    case ElementwiseOperation::kSubtract:
      return Binary<Subtract>(a, b, size, out);
    case ElementwiseOperation::kMultiply:
      return Binary<Multiply>(a, b, size, out);
    case ElementwiseOperation::kDivide:
      return Binary<Divide>(a, b, size, out);
    case ElementwiseOperation::kMaximum:
      return Binary<Maximum>(a, b, size, out);
    case ElementwiseOperation::kMinimum:
      return Binary<Minimum>(a, b, size, out);
    case ElementwiseOperation::kNegate:
      return Unary<Negate>(a, size, out);
    case ElementwiseOperation::kAbsolute:
      return Unary<Absolute>(a, size, out);
    case ElementwiseOperation::kSquareRoot:
      return Unary<SquareRoot>(a, size, out);
  }
}

void ApplyToFloats(ElementwiseOperation operation, const float* a, const float* b, size_t size, float* out) {
  Apply(operation, a, b, size, out);
}

void ApplyToDoubles(ElementwiseOperation operation, const double* a, const double* b, size_t size, double* out) {
  Apply(operation, a, b, size, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace jaxlib_ext
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jaxlib_ext {

HWY_EXPORT(ApplyToFloats);
HWY_EXPORT(ApplyToDoubles);

void VectorElementwise(ElementwiseOperation operation, const float* a, const float* b, size_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(ApplyToFloats)(operation, a, b, size, out);
}

void VectorElementwise(ElementwiseOperation operation, const double* a, const double* b, size_t size, double* out) {
  HWY_DYNAMIC_DISPATCH(ApplyToDoubles)(operation, a, b, size, out);
}

}  // namespace jaxlib_ext
#endif  // HWY_ONCE
