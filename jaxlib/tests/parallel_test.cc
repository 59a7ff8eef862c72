#include "jaxlib/kernels/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
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

TEST(ParallelForTest, ThrowsAgainWhatATaskThrows) {
  for (const size_t threads : {1, 2, 7}) {
    Threads runner(threads);
    std::atomic<int> working = 0;
    std::atomic<int> runs = 0;
    const auto run = [&](size_t, size_t task) {
      ++working;
      ++runs;
      // Alive when the caller goes on, if it does not wait for this one.
      std::vector<std::string> local(1000, "a string that has memory of its own");
      if (task == 3 || task == 5) {
        --working;
        throw std::runtime_error(local[task]);
      }
      --working;
    };
    EXPECT_THROW(ParallelFor(runner, 100000, run), std::runtime_error);
    EXPECT_EQ(working, 0);
    EXPECT_LT(runs, 100000);
  }
}

// Takes so many tasks, and has no memory for others.
class FullPool final : public TaskRunner {
 public:
  explicit FullPool(size_t room) : room_(room) {}

  size_t num_threads() const override { return 4; }
  void Schedule(std::function<void()> task) override {
    if (room_ == 0) throw std::bad_alloc();
    --room_;
    threads_.Schedule(std::move(task));
  }

 private:
  Threads threads_{4};
  size_t room_;
};

TEST(ParallelForTest, GoesOnWithTheThreadsThatThereAre) {
  for (const size_t room : {0, 1, 2}) {
    FullPool pool(room);
    std::vector<std::atomic<int>> runs(100);
    ParallelFor(pool, runs.size(), [&](size_t, size_t task) { ++runs[task]; });
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
  }
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
