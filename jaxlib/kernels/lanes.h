// Cutting an array into the lanes along one of its dimensions, and sharing them out among threads.

#ifndef JAXLIB_KERNELS_LANES_H_
#define JAXLIB_KERNELS_LANES_H_

#include <cstddef>
#include <functional>

#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// An array in row-major order, of which one dimension matters: the sizes of those before it and of those
// behind it are multiplied.
struct LaneShape {
  size_t outer;
  size_t size;
  size_t inner;

  size_t num_elements() const { return outer * size * inner; }
};

// Neighboring lanes: element `i` of lane `c` lies at `offset + i * stride + c`. They are worked on together,
// as they share cache lines.
struct Lanes {
  size_t offset;
  size_t count;
  size_t stride;
  size_t size;

  bool contiguous() const { return stride == 1; }
};

// As many lanes fill a cache line with four-byte elements.
inline constexpr size_t kMaxLanes = 16;

// Fewer elements than this are not worth waking a thread.
inline constexpr size_t kParallelElements = 1 << 15;

// How the lanes of an array are shared out.
class LanePlan {
 public:
  // `bytes_per_element` is the memory that a worker needs for each element that it works on.
  LanePlan(const TaskRunner& runner, const LaneShape& shape, size_t bytes_per_element);

  // How many workspaces `Run` needs, and for how many lanes each.
  size_t num_workers() const { return num_workers_; }
  size_t max_lanes() const { return max_lanes_; }

  // Calls `run` until all lanes are done. Either many calls run at a time, each of which gets a runner with
  // one thread; or one call after the other gets them all.
  void Run(TaskRunner& runner,
           const std::function<void(TaskRunner& runner, size_t worker, const Lanes& lanes)>& run) const;

 private:
  Lanes Block(size_t index) const;

  LaneShape shape_;
  size_t max_lanes_;
  size_t blocks_per_outer_;
  size_t num_blocks_;
  size_t blocks_per_task_;
  size_t num_workers_;
  bool one_by_one_;
};

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_LANES_H_
