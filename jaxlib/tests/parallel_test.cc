#include "jaxlib/kernels/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

TEST(ParallelForTest, RunsEveryTaskOnce) {
  for (const size_t threads : {1, 2, 7}) {
    Threads runner(threads);
    std::vector<std::atomic<int>> runs(100);
    ParallelFor(runner, runs.size(), [&](size_t worker, size_t task) {
      EXPECT_LT(worker, threads);
      ++runs[task];
    });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelForTest, WithoutTasks) {
  Threads runner(2);
  ParallelFor(runner, 0, [](size_t, size_t) { FAIL(); });
}

// Keeps tasks instead of running them, as a pool does all of whose threads are busy.
class BusyPool final : public TaskRunner {
 public:
  size_t num_threads() const override { return 4; }
  void Schedule(std::function<void()> task) override { tasks.push_back(std::move(task)); }

  std::vector<std::function<void()>> tasks;
};

TEST(ParallelForTest, NeedsNoThreadButTheCallers) {
  BusyPool pool;
  auto runs = std::make_unique<int>(0);
  ParallelFor(pool, 10, [&](size_t worker, size_t) {
    EXPECT_EQ(worker, 0u);
    ++*runs;
  });
  EXPECT_EQ(*runs, 10);
  runs.reset();
  // What the pool gets to later must not touch what is gone.
  for (const auto& task : pool.tasks) task();
}

TEST(ParallelRangesTest, CoversAllOnce) {
  Threads runner(3);
  for (const size_t size : {0, 1, 9, 10, 29, 30, 1000}) {
    std::vector<int> runs(size);
    ParallelRanges(runner, size, 10, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++runs[i];
    });
    EXPECT_EQ(runs, std::vector<int>(size, 1));
  }
}

}  // namespace
}  // namespace jaxlib_ext
