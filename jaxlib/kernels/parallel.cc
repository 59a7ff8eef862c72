#include "jaxlib/kernels/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

namespace jaxlib_ext {
namespace {

// Owned by everybody who may still look at it: a task that the pool starts late finds nothing to do.
struct Loop {
  Loop(size_t num_tasks, const Task& run) : num_tasks(num_tasks), run(&run) {}

  void Work(size_t worker) noexcept {
    for (;;) {
      const size_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= num_tasks) return;
      if (!failed.load(std::memory_order_relaxed)) {
        try {
          (*run)(worker, task);
        } catch (...) {
          if (!failed.exchange(true)) error = std::current_exception();
        }
      }
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == num_tasks) done.notify_all();
    }
  }

  const size_t num_tasks;
  const Task* const run;  // valid while tasks are left, as the caller waits for them
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;  // for the caller, once all are done
};

}  // namespace

void ParallelFor(TaskRunner& runner, size_t num_tasks, const Task& run) {
  const size_t workers = std::min(num_tasks, runner.num_threads());
  if (workers <= 1) {
    for (size_t task = 0; task < num_tasks; ++task) run(0, task);
    return;
  }
  const auto loop = std::make_shared<Loop>(num_tasks, run);
  for (size_t worker = 1; worker < workers; ++worker) {
    try {
      runner.Schedule([loop, worker] { loop->Work(worker); });
    } catch (...) {
      break;  // the threads that there are do all the work
    }
  }
  loop->Work(0);
  for (size_t done; (done = loop->done.load(std::memory_order_acquire)) != num_tasks;) {
    loop->done.wait(done, std::memory_order_acquire);
  }
  // Taken away, as a worker that has nothing left to do may be the last to let go of the loop.
  if (loop->failed) std::rethrow_exception(std::exchange(loop->error, nullptr));
}

}  // namespace jaxlib_ext
