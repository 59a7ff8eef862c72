#include "jaxlib/kernels/workspace.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

namespace jaxlib_ext {
namespace {

// Nobody waits for it: what another thread is at is not there, nor in a process that was forked meanwhile.
class KeptBlocks {
 public:
  // The smallest with at least `size` bytes; empty if there is none.
  MemoryBlock Take(size_t size) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return MemoryBlock();
    size_t best = count_;
    for (size_t i = 0; i < count_; ++i) {
      if (blocks_[i].size() >= size && (best == count_ || blocks_[i].size() < blocks_[best].size())) {
        best = i;
      }
    }
    return best == count_ ? MemoryBlock() : Remove(best);
  }

  // Those kept longest make room.
  void Add(MemoryBlock block) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    while (count_ == kMaxCount || size_ + block.size() > kMaxKept) Remove(0);
    size_ += block.size();
    blocks_[count_++] = std::move(block);
  }

 private:
  static constexpr size_t kMaxCount = kMaxKept / kMinKept;

  MemoryBlock Remove(size_t place) {
    MemoryBlock block = std::move(blocks_[place]);
    size_ -= block.size();
    std::move(blocks_.begin() + place + 1, blocks_.begin() + count_, blocks_.begin() + place);
    --count_;
    return block;
  }

  std::mutex mutex_;
  // No vector, as there may be no memory to keep something in.
  std::array<MemoryBlock, kMaxCount> blocks_;
  size_t count_ = 0;
  size_t size_ = 0;
};

KeptBlocks& Kept() {
  // Never destroyed: kernels may still run when the process ends.
  static auto* const kept = new KeptBlocks;
  return *kept;
}

}  // namespace

MemoryBlock TakeBlock(size_t size) {
  if (size >= kMinKept) {
    MemoryBlock block = Kept().Take(size);
    if (block.size() > 0) return block;
  }
  return MemoryBlock(size);
}

void ReturnBlock(MemoryBlock block) {
  if (block.size() >= kMinKept && block.size() <= kMaxKept) Kept().Add(std::move(block));
}

}  // namespace jaxlib_ext
