// How arrays are cut among devices.

#ifndef JAXLIB_PJRT_RUNNER_SHARDING_H_
#define JAXLIB_PJRT_RUNNER_SHARDING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"

namespace pjrt_runner {

struct MeshAxis {
  std::string name;
  int64_t size;
};

// Devices in row-major order over the axes of a mesh, and the axes that divide each dimension.
struct Sharding {
  std::vector<MeshAxis> mesh;
  // For each dimension, places of axes in `mesh`, the slowest first. Dimensions beyond are whole.
  std::vector<std::vector<size_t>> partitions;
  std::string memory_kind;  // empty for the devices' own
};

// Part of an array.
struct Slice {
  Shape start;
  Shape shape;

  bool operator==(const Slice&) const = default;
};

// The part of an array that a device has. The sharding was checked by CheckSharding.
Slice SliceOf(const Sharding& sharding, const Shape& shape, int64_t device);

// Throws an Error of the input, which starts with `what`, if such an array cannot be cut like this
// among as many devices.
void CheckSharding(const Sharding& sharding, const Shape& shape, int64_t devices,
                   const std::string& what);

std::vector<std::byte> Cut(const ElementType& type, const Shape& shape,
                           const std::vector<std::byte>& whole, const Slice& slice);
void Paste(const std::vector<std::byte>& part, const Slice& slice, Array& whole);

// "P('x', None) over x=2, y=4"
std::string ShardingText(const Sharding& sharding);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_SHARDING_H_
