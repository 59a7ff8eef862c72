// vector_sort.h through Highway's vqsort. This file is compiled once for each instruction set.

#include "jaxlib/kernels/vector_sort.h"

#include <limits>

// These differ from others in nothing that sorting needs, and take long to compile.
#ifdef __SANITIZE_THREAD__  // for which g++ 12 takes garbage above a mask's 8 bits for an index
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3 | HWY_AVX3_ZEN4 | HWY_AVX3_DL | HWY_AVX3_SPR | HWY_SSE2 | HWY_SSSE3)
#else
#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_AVX3_SPR | HWY_SSE2 | HWY_SSSE3)
#endif

// The seed of its pivots need not be a secret.
#define VQSORT_ONLY_STATIC 1

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jaxlib/kernels/vector_sort.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/contrib/sort/vqsort-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jaxlib_ext {
namespace HWY_NAMESPACE {

#if VQSORT_ENABLED && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

size_t Limit() {
  return HWY_MAX_BYTES > 16 ? std::numeric_limits<size_t>::max() : 1024;
}

void Sort32(uint32_t* data, size_t size) {
  hwy::HWY_NAMESPACE::VQSortStatic(data, size, hwy::SortAscending());
}
void Sort64(uint64_t* data, size_t size) {
  hwy::HWY_NAMESPACE::VQSortStatic(data, size, hwy::SortAscending());
}
void Sort128(hwy::uint128_t* data, size_t size) {
  hwy::HWY_NAMESPACE::VQSortStatic(data, size, hwy::SortAscending());
}

#else

size_t Limit() { return 0; }
void Sort32(uint32_t*, size_t) {}
void Sort64(uint64_t*, size_t) {}
void Sort128(hwy::uint128_t*, size_t) {}

#endif

const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace jaxlib_ext
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace jaxlib_ext {

HWY_EXPORT(Limit);
HWY_EXPORT(Sort32);
HWY_EXPORT(Sort64);
HWY_EXPORT(Sort128);
HWY_EXPORT(Target);

size_t VectorSortLimit() {
  static const size_t limit = HWY_DYNAMIC_DISPATCH(Limit)();
  return limit;
}

void VectorSort(uint32_t* data, size_t size) { HWY_DYNAMIC_DISPATCH(Sort32)(data, size); }
void VectorSort(uint64_t* data, size_t size) { HWY_DYNAMIC_DISPATCH(Sort64)(data, size); }
void VectorSort(Wide* data, size_t size) {
  static_assert(sizeof(Wide) == sizeof(hwy::uint128_t) && alignof(Wide) == alignof(hwy::uint128_t));
  HWY_DYNAMIC_DISPATCH(Sort128)(reinterpret_cast<hwy::uint128_t*>(data), size);
}

const char* VectorSortTarget() {
  return VectorSortLimit() == 0 ? "none" : HWY_DYNAMIC_DISPATCH(Target)();
}

}  // namespace jaxlib_ext
#endif  // HWY_ONCE
