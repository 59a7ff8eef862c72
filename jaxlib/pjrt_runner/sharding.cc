#include "jaxlib/pjrt_runner/sharding.h"

#include <cstring>

#include "jaxlib/pjrt_runner/error.h"

namespace pjrt_runner {
namespace {

// Calls `copy` with offsets, within the whole array and the part, of each row of the part, and its
// bytes.
template <typename Copy>
void ForRows(const ElementType& type, const Shape& whole, const Slice& slice, Copy copy) {
  const size_t total = ByteSize(type, slice.shape);
  if (total == 0) return;
  const size_t rank = whole.size();
  const size_t row = rank == 0 ? type.size : type.size * static_cast<size_t>(slice.shape[rank - 1]);
  std::vector<size_t> strides(rank);
  size_t stride = type.size;
  size_t from = 0;
  for (size_t i = rank; i-- > 0;) {
    strides[i] = stride;
    from += stride * static_cast<size_t>(slice.start[i]);
    stride *= static_cast<size_t>(whole[i]);
  }
  Shape index(rank);
  for (size_t to = 0; to < total; to += row) {
    copy(from, to, row);
    for (size_t i = rank < 2 ? 0 : rank - 1; i-- > 0;) {
      from += strides[i];
      if (++index[i] < slice.shape[i]) break;
      from -= strides[i] * static_cast<size_t>(slice.shape[i]);
      index[i] = 0;
    }
  }
}

int64_t Parts(const Sharding& sharding, const std::vector<size_t>& axes) {
  int64_t parts = 1;
  for (const size_t axis : axes) parts *= sharding.mesh[axis].size;
  return parts;
}

}  // namespace

Slice SliceOf(const Sharding& sharding, const Shape& shape, int64_t device) {
  std::vector<int64_t> coordinates(sharding.mesh.size());
  for (size_t i = sharding.mesh.size(); i-- > 0;) {
    coordinates[i] = device % sharding.mesh[i].size;
    device /= sharding.mesh[i].size;
  }
  Slice slice = {Shape(shape.size()), shape};
  for (size_t i = 0; i < sharding.partitions.size(); ++i) {
    int64_t part = 0;
    for (const size_t axis : sharding.partitions[i]) {
      part = part * sharding.mesh[axis].size + coordinates[axis];
    }
    slice.shape[i] = shape[i] / Parts(sharding, sharding.partitions[i]);
    slice.start[i] = part * slice.shape[i];
  }
  return slice;
}

void CheckSharding(const Sharding& sharding, const Shape& shape, int64_t devices,
                   const std::string& what) {
  const auto fail = [&](const auto&... why) {
    throw InputError(what, " has the sharding ", ShardingText(sharding), ", ", why...);
  };
  int64_t left = devices;
  for (const MeshAxis& axis : sharding.mesh) {
    if (axis.size <= 0 || left % axis.size != 0) {
      fail("which is not over the ", devices, " devices of the program");
    }
    left /= axis.size;
  }
  if (left != 1) fail("which is not over the ", devices, " devices of the program");
  if (sharding.partitions.size() > shape.size()) {
    fail("which has more dimensions than its ", shape.size());
  }
  std::vector<bool> used(sharding.mesh.size());
  for (size_t i = 0; i < sharding.partitions.size(); ++i) {
    for (const size_t axis : sharding.partitions[i]) {
      if (used[axis]) fail("in which an axis divides twice");
      used[axis] = true;
    }
    const int64_t parts = Parts(sharding, sharding.partitions[i]);
    if (shape[i] % parts != 0) {
      fail("whose ", parts, " parts of dimension ", i, " of size ", shape[i], " are not even");
    }
  }
}

std::vector<std::byte> Cut(const ElementType& type, const Shape& shape,
                           const std::vector<std::byte>& whole, const Slice& slice) {
  std::vector<std::byte> part(ByteSize(type, slice.shape));
  ForRows(type, shape, slice, [&](size_t from, size_t to, size_t size) {
    std::memcpy(part.data() + to, whole.data() + from, size);
  });
  return part;
}

void Paste(const std::vector<std::byte>& part, const Slice& slice, Array& whole) {
  ForRows(*whole.type, whole.shape, slice, [&](size_t to, size_t from, size_t size) {
    std::memcpy(whole.data.data() + to, part.data() + from, size);
  });
}

std::string ShardingText(const Sharding& sharding) {
  std::string text = "P(";
  for (size_t i = 0; i < sharding.partitions.size(); ++i) {
    const std::vector<size_t>& axes = sharding.partitions[i];
    text += i == 0 ? "" : ", ";
    if (axes.empty()) text += "None";
    if (axes.size() > 1) text += "(";
    for (size_t j = 0; j < axes.size(); ++j) {
      text += Cat(j == 0 ? "'" : ", '", sharding.mesh[axes[j]].name, "'");
    }
    if (axes.size() > 1) text += ")";
  }
  text += ") over ";
  for (size_t i = 0; i < sharding.mesh.size(); ++i) {
    text += Cat(i == 0 ? "" : ", ", sharding.mesh[i].name, "=", sharding.mesh[i].size);
  }
  return text;
}

}  // namespace pjrt_runner
