// Arrays in NumPy's .npy files: versions 1, 2 and 3 of the format.
//
// Types that NumPy does not know (bfloat16, float8, int4, ...) are raw bytes in such files ('V2',
// 'V1'), as numpy.save writes arrays of ml_dtypes. Which of them it is, the reader has to know.

#ifndef JAXLIB_PJRT_RUNNER_NPY_H_
#define JAXLIB_PJRT_RUNNER_NPY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"

namespace pjrt_runner {

struct NpyArray {
  char kind;    // NumPy's letter: 'b', 'i', 'u', 'f', 'c', 'V'
  size_t size;  // bytes of an element
  Shape shape;
  std::vector<std::byte> data;  // in row-major order and this machine's byte order
};

// Reads the bytes of a file, which may be damaged. Throws an Error that starts with `name`.
NpyArray ParseNpy(std::string_view bytes, const std::string& name);

// "float32[2,3]", or for raw bytes "V2[2,3]"
std::string TypeText(const NpyArray& array);

// Whether the elements are of this type, or raw bytes that may be.
bool HasType(const NpyArray& array, const ElementType& type);

// The header of version 1 of the format, or 2 where that has no room: what comes before the
// elements.
std::string NpyHeader(const ElementType& type, const Shape& shape);

void WriteNpy(const std::string& path, const Array& array);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_NPY_H_
