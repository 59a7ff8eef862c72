// Memory for intermediate results.

#ifndef JAXLIB_KERNELS_WORKSPACE_H_
#define JAXLIB_KERNELS_WORKSPACE_H_

#include <cstddef>
#include <memory>
#include <new>

namespace jaxlib_ext {

// Uninitialized memory that starts at a cache line.
class Workspace {
 public:
  static constexpr size_t kAlignment = 64;

  // Throws std::bad_alloc.
  explicit Workspace(size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(RoundUp(bytes), std::align_val_t(kAlignment)))),
        next_(data_.get()) {}

  // The next `count` elements.
  template <typename T>
  T* Take(size_t count) {
    T* taken = reinterpret_cast<T*>(next_);
    next_ += RoundUp(count * sizeof(T));
    return taken;
  }

  // Makes all of it free to be taken again.
  void Reset() { next_ = data_.get(); }

  static constexpr size_t RoundUp(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t(kAlignment)); }
  };

  std::unique_ptr<std::byte, Delete> data_;
  std::byte* next_;
};

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_WORKSPACE_H_
