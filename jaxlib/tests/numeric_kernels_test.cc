// The kernels of numerical functions, compared with what they are defined as.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "jaxlib/kernels/cumulative.h"
#include "jaxlib/kernels/random_bits.h"
#include "jaxlib/kernels/scatter_add.h"
#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kLong = 150001;  // for several threads

std::vector<int32_t> Draw(size_t size, int32_t limit) {
  std::mt19937 random(1);
  std::vector<int32_t> x(size);
  for (int32_t& e : x) e = static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
  return x;
}

TEST(CumulativeTest, EveryShapeAndDirection) {
  for (const LaneShape& shape : {LaneShape{0, 3, 2}, LaneShape{2, 0, 2}, LaneShape{1, 1, 1}, LaneShape{3, 7, 1},
                                 LaneShape{2, 5, 300}, LaneShape{1, kLong, 1}, LaneShape{9, 9000, 1},
                                 LaneShape{2, 40000, 2}}) {
    const std::vector<int32_t> x = Draw(shape.num_elements(), 1 << 30);
    for (const size_t num_threads : NumThreads({1, 3}, 3)) {
      for (const bool reverse : {false, true}) {
        Threads threads(num_threads);
        std::vector<int32_t> sums(x.size());
        std::vector<int32_t> largest(x.size());
        Cumulate(threads, ElementType::kInt32, Operation::kSum, reverse, shape, x.data(), sums.data());
        Cumulate(threads, ElementType::kInt32, Operation::kMaximum, reverse, shape, x.data(), largest.data());
        for (size_t lane = 0; lane < shape.outer * shape.inner; ++lane) {
          uint32_t sum = 0;
          int32_t most = 0;
          for (size_t i = 0; i < shape.size; ++i) {
            const size_t at = reverse ? shape.size - 1 - i : i;
            const size_t place = (lane / shape.inner * shape.size + at) * shape.inner + lane % shape.inner;
            sum += static_cast<uint32_t>(x[place]);
            most = std::max(most, x[place]);
            ASSERT_EQ(sums[place], static_cast<int32_t>(sum)) << lane << " " << i;
            ASSERT_EQ(largest[place], most);
          }
        }
      }
    }
  }
}

TEST(CumulativeTest, SumsAreRoundedOnce) {
  Threads threads(2);
  const std::vector<float> x(kLong, 0.1f);
  std::vector<float> sums(x.size());
  Cumulate(threads, ElementType::kFloat32, Operation::kSum, false, {1, x.size(), 1}, x.data(), sums.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(sums[i], static_cast<double>(0.1f) * static_cast<double>(i + 1), std::ldexp(sums[i], -24));
  }
}

TEST(CumulativeTest, ExtremaOfNansAndZeros) {
  SerialRunner serial;
  const std::vector<float> x = {-0.0f, 0.0f, -0.0f, -1, 2, kNan, 3};
  std::vector<float> y(x.size());
  Cumulate(serial, ElementType::kFloat32, Operation::kMaximum, false, {1, x.size(), 1}, x.data(), y.data());
  EXPECT_TRUE(std::signbit(y[0]));
  EXPECT_FALSE(std::signbit(y[1]) || std::signbit(y[2]) || std::signbit(y[3]));
  EXPECT_EQ(y[4], 2);
  EXPECT_TRUE(std::isnan(y[5]) && std::isnan(y[6]));
  Cumulate(serial, ElementType::kFloat32, Operation::kMinimum, true, {1, 5, 1}, x.data(), y.data());
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 5), (std::vector<float>{-1, -1, -1, -1, 2}));
}

TEST(ThreefryTest, PublishedVectors) {
  // Counter and key of zeros, from the authors' test vectors for 20 rounds.
  SerialRunner serial;
  const uint32_t keys[2] = {0, 0};
  uint64_t bits = 0;
  ThreefryBits(serial, keys, 1, 1, 8, &bits);
  EXPECT_EQ(bits, 0x6B200159'99BA4EFEu);
}

TEST(ThreefryTest, RangesAndWidthsAgree) {
  const std::vector<uint32_t> keys = {1, 2, 0xFFFFFFFF, 7, 3, 4};
  constexpr size_t kSize = 30001;
  SerialRunner serial;
  std::vector<uint64_t> wide(3 * kSize);
  ThreefryBits(serial, keys.data(), 3, kSize, 8, wide.data());
  Threads threads(3);
  std::vector<uint32_t> words(3 * kSize);
  std::vector<uint8_t> bytes(3 * kSize);
  ThreefryBits(threads, keys.data(), 3, kSize, 4, words.data());
  ThreefryBits(threads, keys.data(), 3, kSize, 1, bytes.data());
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(words[i], static_cast<uint32_t>(wide[i] >> 32 ^ wide[i]));
    ASSERT_EQ(bytes[i], static_cast<uint8_t>(words[i]));
  }
}

TEST(ScatterAddTest, DropsRowsThatAreNotThere) {
  const std::vector<int32_t> indices = {1, -1, 2, 1, 0};
  const std::vector<float> updates = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<float> out = {1, 1, 1, 1};
  ScatterAdd(ElementType::kFloat32, ElementType::kInt32, 2, 2, 5, indices.data(), updates.data(), out.data());
  EXPECT_EQ(out, (std::vector<float>{10, 11, 9, 11}));
  ScatterAdd(ElementType::kFloat32, ElementType::kInt32, 4, 1, 5, indices.data(), updates.data(), out.data());
  EXPECT_EQ(out, (std::vector<float>{15, 16, 12, 11}));
}

}  // namespace
}  // namespace jaxlib_ext
