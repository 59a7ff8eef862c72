// Loops whose iterations run on the threads of a pool and on the caller's.

#ifndef JAXLIB_KERNELS_PARALLEL_H_
#define JAXLIB_KERNELS_PARALLEL_H_

#include <algorithm>
#include <cstddef>
#include <functional>

namespace jaxlib_ext {

// Where tasks can run. XLA's pool is one; a kernel that must stay on its thread gets a SerialRunner.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;

  // How many threads there are, the caller's among them: at least 1.
  virtual size_t num_threads() const = 0;

  // Runs `task` at some time on some thread, perhaps after the caller has gone on.
  virtual void Schedule(std::function<void()> task) = 0;
};

class SerialRunner final : public TaskRunner {
 public:
  size_t num_threads() const override { return 1; }
  void Schedule(std::function<void()> task) override { task(); }
};

// Called with the number of the worker, below `num_threads()`, and that of the task. No two calls with
// the same worker run at the same time.
using Task = std::function<void(size_t worker, size_t task)>;

// Calls `run` for every task below `num_tasks` and returns when all have ended. The caller works too, and
// waits for no task that has not begun: a kernel that itself runs on the pool cannot block it. If a call
// throws, those that have begun end, no others begin, and the first exception is thrown again on the caller's thread.
void ParallelFor(TaskRunner& runner, size_t num_tasks, const Task& run);

// Cuts [0, size) into ranges of at least `grain`, at most one a thread, and calls `run(begin, end)` for each.
template <typename Run>
void ParallelRanges(TaskRunner& runner, size_t size, size_t grain, const Run& run) {
  const size_t parts = std::clamp<size_t>(size / grain, 1, runner.num_threads());
  if (parts == 1) {
    run(size_t{0}, size);
    return;
  }
  ParallelFor(runner, parts, [&](size_t, size_t part) {
    run(size * part / parts, size * (part + 1) / parts);
  });
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_PARALLEL_H_
