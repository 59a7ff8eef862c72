// Types of array elements, and their names in PJRT, in .npy files and in exported programs.

#ifndef JAXLIB_PJRT_RUNNER_ELEMENT_TYPE_H_
#define JAXLIB_PJRT_RUNNER_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt_c_api.h"

namespace pjrt_runner {

struct ElementType {
  std::string_view name;  // NumPy's or ml_dtypes'
  PJRT_Buffer_Type pjrt;
  // NumPy's letter for the kind. 'V' are types that NumPy does not know: raw bytes in files.
  char kind;
  size_t size;   // bytes in host memory; types of less than 8 bits take one byte
  int exported;  // its number in exported programs, -1 if it has none
};

// Null where there is none.
const ElementType* TypeOfName(std::string_view name);
const ElementType* TypeOfPjrt(PJRT_Buffer_Type type);
const ElementType* TypeOfExported(int number);
// Not for the kind 'V', which many types share.
const ElementType* TypeOfNpy(char kind, size_t size);

using Shape = std::vector<int64_t>;

// An array in host memory, in row-major order.
struct Array {
  const ElementType* type;
  Shape shape;
  std::vector<std::byte> data;
};

// The bytes of an array; throws an Error of the input if they are more than memory can have.
size_t ByteSize(const ElementType& type, const Shape& shape);

// "float32[2,3]"
std::string TypeText(const ElementType& type, const Shape& shape);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_ELEMENT_TYPE_H_
