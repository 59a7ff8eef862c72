// A runner of tasks for tests: every task gets a thread.

#ifndef JAXLIB_TESTS_THREADS_H_
#define JAXLIB_TESTS_THREADS_H_

#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Whether ThreadSanitizer watches, which makes tests ten times as slow: they then run fewer and smaller cases.
#ifdef __has_feature
#define JAXLIB_TESTS_WATCHED __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define JAXLIB_TESTS_WATCHED true
#else
#define JAXLIB_TESTS_WATCHED false
#endif
inline constexpr bool kWatched = JAXLIB_TESTS_WATCHED;
#undef JAXLIB_TESTS_WATCHED

inline std::vector<size_t> NumThreads(std::vector<size_t> all, size_t watched) {
  return kWatched ? std::vector<size_t>{watched} : all;
}

class Threads final : public TaskRunner {
 public:
  explicit Threads(size_t num_threads) : num_threads_(num_threads) {}
  ~Threads() override {
    for (std::thread& thread : threads_) thread.join();
  }

  size_t num_threads() const override { return num_threads_; }
  void Schedule(std::function<void()> task) override { threads_.emplace_back(std::move(task)); }

 private:
  const size_t num_threads_;
  std::vector<std::thread> threads_;
};

}  // namespace jaxlib_ext

#endif  // JAXLIB_TESTS_THREADS_H_
