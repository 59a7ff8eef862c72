#include "jaxlib/pjrt_runner/element_type.h"

#include <limits>

#include "jaxlib/pjrt_runner/error.h"

namespace pjrt_runner {
namespace {

constexpr ElementType kTypes[] = {
    {"bool", PJRT_Buffer_Type_PRED, 'b', 1, 0},
    {"int8", PJRT_Buffer_Type_S8, 'i', 1, 1},
    {"int16", PJRT_Buffer_Type_S16, 'i', 2, 2},
    {"int32", PJRT_Buffer_Type_S32, 'i', 4, 3},
    {"int64", PJRT_Buffer_Type_S64, 'i', 8, 4},
    {"uint8", PJRT_Buffer_Type_U8, 'u', 1, 5},
    {"uint16", PJRT_Buffer_Type_U16, 'u', 2, 6},
    {"uint32", PJRT_Buffer_Type_U32, 'u', 4, 7},
    {"uint64", PJRT_Buffer_Type_U64, 'u', 8, 8},
    {"float16", PJRT_Buffer_Type_F16, 'f', 2, 9},
    {"float32", PJRT_Buffer_Type_F32, 'f', 4, 10},
    {"float64", PJRT_Buffer_Type_F64, 'f', 8, 11},
    {"complex64", PJRT_Buffer_Type_C64, 'c', 8, 12},
    {"complex128", PJRT_Buffer_Type_C128, 'c', 16, 13},
    {"bfloat16", PJRT_Buffer_Type_BF16, 'V', 2, 14},
    {"int4", PJRT_Buffer_Type_S4, 'V', 1, 15},
    {"uint4", PJRT_Buffer_Type_U4, 'V', 1, 16},
    {"float8_e4m3b11fnuz", PJRT_Buffer_Type_F8E4M3B11FNUZ, 'V', 1, 17},
    {"float8_e4m3fn", PJRT_Buffer_Type_F8E4M3FN, 'V', 1, 18},
    {"float8_e4m3fnuz", PJRT_Buffer_Type_F8E4M3FNUZ, 'V', 1, 19},
    {"float8_e5m2", PJRT_Buffer_Type_F8E5M2, 'V', 1, 20},
    {"float8_e5m2fnuz", PJRT_Buffer_Type_F8E5M2FNUZ, 'V', 1, 21},
    {"float8_e4m3", PJRT_Buffer_Type_F8E4M3, 'V', 1, 23},
    {"float8_e3m4", PJRT_Buffer_Type_F8E3M4, 'V', 1, 24},
    {"float8_e8m0fnu", PJRT_Buffer_Type_F8E8M0FNU, 'V', 1, 25},
    {"float4_e2m1fn", PJRT_Buffer_Type_F4E2M1FN, 'V', 1, 26},
    {"int2", PJRT_Buffer_Type_S2, 'V', 1, -1},
    {"uint2", PJRT_Buffer_Type_U2, 'V', 1, -1},
};

template <typename Predicate>
const ElementType* Find(Predicate matches) {
  for (const ElementType& type : kTypes) {
    if (matches(type)) return &type;
  }
  return nullptr;
}

}  // namespace

const ElementType* TypeOfName(std::string_view name) {
  return Find([&](const ElementType& type) { return type.name == name; });
}

const ElementType* TypeOfPjrt(PJRT_Buffer_Type pjrt) {
  return Find([&](const ElementType& type) { return type.pjrt == pjrt; });
}

const ElementType* TypeOfExported(int number) {
  return Find([&](const ElementType& type) { return number >= 0 && type.exported == number; });
}

const ElementType* TypeOfNpy(char kind, size_t size) {
  // as ml_dtypes writes it, and NumPy does not read it
  if (kind == 'f' && size == 1) return TypeOfName("float8_e5m2");
  return Find([&](const ElementType& type) {
    return kind != 'V' && type.kind == kind && type.size == size;
  });
}

size_t ByteSize(const ElementType& type, const Shape& shape) {
  // half of it: differences of pointers are signed
  constexpr size_t kMost = std::numeric_limits<size_t>::max() / 2;
  size_t size = type.size;
  for (const int64_t dimension : shape) {
    if (dimension == 0) return 0;
  }
  for (const int64_t dimension : shape) {
    if (dimension < 0 || static_cast<uint64_t>(dimension) > kMost / size) {
      throw InputError("an array ", TypeText(type, shape), " does not fit into memory");
    }
    size *= static_cast<size_t>(dimension);
  }
  return size;
}

std::string TypeText(const ElementType& type, const Shape& shape) {
  std::string text = Cat(type.name, "[");
  for (size_t i = 0; i < shape.size(); ++i) text += Cat(i == 0 ? "" : ",", shape[i]);
  return text + "]";
}

}  // namespace pjrt_runner
