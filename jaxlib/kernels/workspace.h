// Memory for intermediate results.

#ifndef JAXLIB_KERNELS_WORKSPACE_H_
#define JAXLIB_KERNELS_WORKSPACE_H_

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace jaxlib_ext {

// Memory that starts at a cache line; null if there is none.
class MemoryBlock {
 public:
  static constexpr size_t kAlignment = 64;

  MemoryBlock() = default;
  // Throws std::bad_alloc.
  explicit MemoryBlock(size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, std::align_val_t(kAlignment)))),
        size_(size) {}

  std::byte* data() const { return data_.get(); }
  size_t size() const { return data_ == nullptr ? 0 : size_; }

 private:
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, std::align_val_t(kAlignment)); }
  };

  std::unique_ptr<std::byte, Delete> data_;
  size_t size_ = 0;
};

// Blocks of `kMinKept` bytes or more are kept for the next call, as the first use of fresh memory can take as
// long as a kernel's work. Those kept have at most `kMaxKept` bytes together.
inline constexpr size_t kMinKept = size_t{1} << 20;
inline constexpr size_t kMaxKept = size_t{1} << 26;

// A block of at least `size` bytes. Throws std::bad_alloc.
MemoryBlock TakeBlock(size_t size);
void ReturnBlock(MemoryBlock block);

// Uninitialized memory, given out piece by piece.
class Workspace {
 public:
  static constexpr size_t kAlignment = MemoryBlock::kAlignment;

  // Throws std::bad_alloc.
  explicit Workspace(size_t bytes) : block_(TakeBlock(RoundUp(bytes))), next_(block_.data()) {}
  Workspace(Workspace&&) = default;
  ~Workspace() { ReturnBlock(std::move(block_)); }

  // The next `count` elements.
  template <typename T>
  T* Take(size_t count) {
    T* taken = reinterpret_cast<T*>(next_);
    next_ += RoundUp(count * sizeof(T));
    return taken;
  }

  // Makes all of it free to be taken again.
  void Reset() { next_ = block_.data(); }

  static constexpr size_t RoundUp(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  MemoryBlock block_;
  std::byte* next_;
};

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_WORKSPACE_H_
