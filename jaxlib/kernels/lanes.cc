#include "jaxlib/kernels/lanes.h"

#include <algorithm>

namespace jaxlib_ext {
namespace {

// A worker takes fewer lanes if they need more memory than this.
constexpr size_t kMaxBytes = 1 << 24;

size_t CeilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace

LanePlan::LanePlan(const TaskRunner& runner, const LaneShape& shape, size_t bytes_per_element)
    : shape_(shape) {
  const size_t size = std::max<size_t>(shape.size, 1);
  const bool parallel = shape.num_elements() >= kParallelElements;
  const size_t threads = parallel ? runner.num_threads() : 1;
  max_lanes_ = std::clamp<size_t>(kMaxBytes / (size * bytes_per_element), 1, kMaxLanes);
  max_lanes_ = std::min(max_lanes_, CeilDiv(shape.outer * shape.inner, threads));
  max_lanes_ = std::clamp<size_t>(max_lanes_, 1, std::max<size_t>(shape.inner, 1));
  blocks_per_outer_ = CeilDiv(shape.inner, max_lanes_);
  num_blocks_ = shape.outer * blocks_per_outer_;
  blocks_per_task_ = CeilDiv(kParallelElements / 2, size * max_lanes_);
  one_by_one_ = threads == 1 || (num_blocks_ < threads && size >= kParallelElements);
  num_workers_ = one_by_one_ ? 1 : std::min(threads, CeilDiv(num_blocks_, blocks_per_task_));
}

Lanes LanePlan::Block(size_t index) const {
  const size_t outer = index / blocks_per_outer_;
  const size_t inner = index % blocks_per_outer_ * max_lanes_;
  return {.offset = outer * shape_.size * shape_.inner + inner,
          .count = std::min(max_lanes_, shape_.inner - inner),
          .stride = shape_.inner,
          .size = shape_.size};
}

void LanePlan::Run(TaskRunner& runner,
                   const std::function<void(TaskRunner&, size_t, const Lanes&)>& run) const {
  SerialRunner serial;
  if (one_by_one_) {
    const bool parallel = shape_.size >= kParallelElements;
    for (size_t block = 0; block < num_blocks_; ++block) {
      run(parallel ? runner : serial, 0, Block(block));
    }
    return;
  }
  ParallelFor(runner, CeilDiv(num_blocks_, blocks_per_task_), [&](size_t worker, size_t task) {
    const size_t end = std::min(num_blocks_, (task + 1) * blocks_per_task_);
    for (size_t block = task * blocks_per_task_; block < end; ++block) {
      run(serial, worker, Block(block));
    }
  });
}

}  // namespace jaxlib_ext
