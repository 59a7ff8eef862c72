#include "jaxlib/kernels/workspace.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace jaxlib_ext {
namespace {

TEST(WorkspaceTest, GivesOutAlignedPieces) {
  Workspace workspace(Workspace::RoundUp(3) + Workspace::RoundUp(16));
  std::byte* bytes = workspace.Take<std::byte>(3);
  uint64_t* words = workspace.Take<uint64_t>(2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % Workspace::kAlignment, 0u);
  EXPECT_EQ(reinterpret_cast<std::byte*>(words), bytes + Workspace::kAlignment);
  workspace.Reset();
  EXPECT_EQ(workspace.Take<std::byte>(1), bytes);
}

TEST(WorkspaceTest, KeepsLargeBlocks) {
  MemoryBlock small = TakeBlock(2 * kMinKept);
  MemoryBlock large = TakeBlock(3 * kMinKept);
  const std::byte* small_data = small.data();
  const std::byte* large_data = large.data();
  ReturnBlock(std::move(large));
  ReturnBlock(std::move(small));
  MemoryBlock again = TakeBlock(kMinKept);  // the smallest that is large enough
  EXPECT_EQ(again.data(), small_data);
  EXPECT_EQ(again.size(), 2 * kMinKept);
  MemoryBlock next = TakeBlock(kMinKept);
  EXPECT_EQ(next.data(), large_data);
}

TEST(WorkspaceTest, KeepsNoMoreThanItMay) {
  std::vector<MemoryBlock> blocks;
  for (size_t i = 0; i < 3; ++i) blocks.push_back(TakeBlock(kMaxKept / 2));
  for (MemoryBlock& block : blocks) ReturnBlock(std::move(block));
  blocks.clear();
  // A block of all that may be kept takes the place of all others.
  ReturnBlock(TakeBlock(kMaxKept));
  EXPECT_GE(TakeBlock(kMinKept).size(), kMaxKept);
  ReturnBlock(MemoryBlock(kMaxKept + 1));
  EXPECT_EQ(TakeBlock(kMinKept).size(), kMinKept);
}

TEST(WorkspaceTest, IsForAllThreads) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      for (int i = 0; i < 50; ++i) {
        Workspace workspace(kMinKept + static_cast<size_t>(number));
        std::byte* data = workspace.Take<std::byte>(kMinKept);
        std::memset(data, number, kMinKept);
        EXPECT_EQ(data[kMinKept - 1], static_cast<std::byte>(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace jaxlib_ext
