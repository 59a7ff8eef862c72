// The types of elements that C++ has numbers for.

#ifndef JAXLIB_KERNELS_NUMBERS_H_
#define JAXLIB_KERNELS_NUMBERS_H_

#include <cstdint>

#include "jaxlib/kernels/element_type.h"

namespace jaxlib_ext {

// Calls `visit` with a number of this type. Returns false if it is no integer, float32 or float64.
template <typename Visit>
bool VisitNumber(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::kInt8:
      visit(int8_t{});
      return true;
    case ElementType::kInt16:
      visit(int16_t{});
      return true;
    case ElementType::kInt32:
      visit(int32_t{});
      return true;
    case ElementType::kInt64:
      visit(int64_t{});
      return true;
    case ElementType::kUint8:
      visit(uint8_t{});
      return true;
    case ElementType::kUint16:
      visit(uint16_t{});
      return true;
    case ElementType::kUint32:
      visit(uint32_t{});
      return true;
    case ElementType::kUint64:
      visit(uint64_t{});
      return true;
    case ElementType::kFloat32:
      visit(float{});
      return true;
    case ElementType::kFloat64:
      visit(double{});
      return true;
    default:
      return false;
  }
}

inline bool IsNumber(ElementType type) {
  return VisitNumber(type, [](auto) {});
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_NUMBERS_H_
