// The kernels of numerical functions, compared with what they are defined as.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "jaxlib/kernels/cumulative.h"
#include "jaxlib/kernels/random_bits.h"
#include "jaxlib/kernels/scatter_add.h"
#include "jaxlib/kernels/search_sorted.h"
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
  SerialRunner serial;
  const std::vector<int32_t> indices = {1, -1, 2, 1, 0};
  const std::vector<float> updates = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<float> out = {1, 1, 1, 1};
  RowUpdates what{.type = ElementType::kFloat32,
                  .index_type = ElementType::kInt32,
                  .num_rows = 2,
                  .width = 2,
                  .num_updates = 5,
                  .indices = indices.data(),
                  .updates = updates.data(),
                  .scalar = false,
                  .clip = false};
  ScatterAdd(serial, what, out.data());
  EXPECT_EQ(out, (std::vector<float>{10, 11, 9, 11}));
  what.num_rows = 4;
  what.width = 1;
  ScatterAdd(serial, what, out.data());
  EXPECT_EQ(out, (std::vector<float>{15, 16, 12, 11}));
  what.num_rows = 2;
  what.clip = true;
  what.scalar = true;
  ScatterAdd(serial, what, out.data());
  EXPECT_EQ(out, (std::vector<float>{17, 19, 12, 11}));
}

// With indices of every type, many of them out of bounds, and sums in chunks and one by one.
template <typename Index>
void CheckScatterAdd(ElementType index_type) {
  for (const size_t width : {1, 2, 3, 4, 5, 8, 16}) {
    for (const auto& [num_rows, num_updates] : {std::pair<size_t, size_t>{90, 40}, {90, 70001}, {90000, 700}}) {
      std::vector<Index> indices(num_updates);
      std::mt19937 random(1);
      // None of the first half is negative.
      for (size_t i = 0; i < num_updates; ++i) {
        indices[i] = static_cast<Index>(random() % 130 - (2 * i < num_updates ? 0 : 20));
      }
      const std::vector<int32_t> updates = Draw(num_updates * width, 1 << 30);
      for (const bool scalar : {false, true}) {
        for (const bool clip : {false, true}) {
          std::vector<uint32_t> expected(num_rows * width, 3);
          for (size_t i = 0; i < num_updates; ++i) {
            const Index index = indices[i];
            size_t row = static_cast<uint64_t>(index);
            if (std::is_signed_v<Index> && index < 0) row = clip ? 0 : num_rows;
            if (clip) row = std::min(row, num_rows - 1);
            for (size_t c = 0; row < num_rows && c < width; ++c) {
              expected[row * width + c] += static_cast<uint32_t>(updates[scalar ? 0 : i * width + c]);
            }
          }
          const RowUpdates what{.type = ElementType::kInt32,
                                .index_type = index_type,
                                .num_rows = num_rows,
                                .width = width,
                                .num_updates = num_updates,
                                .indices = indices.data(),
                                .updates = updates.data(),
                                .scalar = scalar,
                                .clip = clip};
          Threads threads(3);
          std::vector<uint32_t> out(num_rows * width, 3);
          ScatterAdd(threads, what, out.data());
          ASSERT_EQ(out, expected) << width << " " << num_rows << " " << scalar << " " << clip;
        }
      }
    }
  }
}

TEST(ScatterAddTest, EveryIndexType) {
  CheckScatterAdd<int8_t>(ElementType::kInt8);
  CheckScatterAdd<uint8_t>(ElementType::kUint8);
  CheckScatterAdd<int16_t>(ElementType::kInt16);
  CheckScatterAdd<int32_t>(ElementType::kInt32);
  CheckScatterAdd<uint32_t>(ElementType::kUint32);
  CheckScatterAdd<int64_t>(ElementType::kInt64);
  CheckScatterAdd<uint64_t>(ElementType::kUint64);
}

TEST(ScatterAddTest, FloatsDoNotDependOnTheNumberOfThreads) {
  const std::vector<int32_t> indices = Draw(kLong, 100);
  std::vector<float> updates(kLong);
  for (size_t i = 0; i < kLong; ++i) updates[i] = std::sin(static_cast<float>(i));
  const auto sums = [&](size_t num_threads) {
    Threads threads(num_threads);
    std::vector<float> out(101, -0.0f);
    ScatterAdd(threads,
               {.type = ElementType::kFloat32,
                .index_type = ElementType::kInt32,
                .num_rows = out.size(),
                .width = 1,
                .num_updates = kLong,
                .indices = indices.data(),
                .updates = updates.data(),
                .scalar = false,
                .clip = false},
               out.data());
    return out;
  };
  const std::vector<float> one = sums(1);
  EXPECT_EQ(one, sums(3));
  EXPECT_TRUE(std::signbit(one[100]));  // nothing is added to it
  std::vector<double> exact(101);
  for (size_t i = 0; i < kLong; ++i) exact[static_cast<size_t>(indices[i])] += updates[i];
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(one[i], exact[i], 1e-4);
}

template <typename T>
void CheckSearchSorted(ElementType type, const std::vector<T>& sorted, const std::vector<T>& values) {
  const auto before = [](T x, T y) { return x < y || (x == x && y != y); };
  for (const bool right : {false, true}) {
    Threads threads(3);
    std::vector<int32_t> places(values.size());
    SearchSorted(threads, type, right, sorted.data(), sorted.size(), values.data(), values.size(), places.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto place = right ? std::upper_bound(sorted.begin(), sorted.end(), values[i], before)
                               : std::lower_bound(sorted.begin(), sorted.end(), values[i], before);
      ASSERT_EQ(places[i], place - sorted.begin()) << sorted.size() << " " << right << " " << values[i];
    }
  }
}

TEST(SearchSortedTest, FloatsOfEveryDistribution) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const size_t size : {1, 2, 3, 100, 5000}) {
    for (int kind = 0; kind < 7; ++kind) {
      std::vector<float> sorted(size);
      for (size_t i = 0; i < size; ++i) {
        const auto place = static_cast<float>(i) / static_cast<float>(size);
        sorted[i] = kind == 0 ? place                              // evenly spaced
                    : kind == 1 ? std::exp(80 * place)             // very unevenly
                    : kind == 2 ? std::floor(5 * place)            // many equal ones
                    : kind == 3 ? 1e6f + place                     // rounded
                                : normal(random);
      }
      std::sort(sorted.begin(), sorted.end());
      if (kind == 5) sorted[0] = -kInfinity;
      if (kind == 6) sorted[size - 1] = kNan;
      std::vector<float> values = sorted;
      values.insert(values.end(), {0.0f, -0.0f, kNan, -kNan, kInfinity, -kInfinity});
      while (values.size() < 40000) {
        const float x = sorted[random() % size];
        values.push_back(std::nextafter(x, normal(random)));
        values.push_back(normal(random));
      }
      CheckSearchSorted(ElementType::kFloat32, sorted, values);
      values.resize(20);  // too few to count cells
      CheckSearchSorted(ElementType::kFloat32, sorted, values);
    }
  }
}

TEST(SearchSortedTest, IntegersOfAllSizes) {
  std::mt19937_64 random(1);
  std::vector<int64_t> sorted(3000);
  std::vector<int64_t> values(40000);
  for (int64_t& x : sorted) x = static_cast<int64_t>(random());
  for (int64_t& x : values) x = static_cast<int64_t>(random());
  std::sort(sorted.begin(), sorted.end());
  std::copy(sorted.begin(), sorted.end(), values.begin());
  CheckSearchSorted(ElementType::kInt64, sorted, values);
  std::vector<uint8_t> bytes(700);
  std::vector<uint8_t> more(40000);
  for (uint8_t& x : bytes) x = static_cast<uint8_t>(random());
  for (uint8_t& x : more) x = static_cast<uint8_t>(random());
  std::sort(bytes.begin(), bytes.end());
  CheckSearchSorted(ElementType::kUint8, bytes, more);
  CheckSearchSorted(ElementType::kUint8, {}, more);
}

}  // namespace
}  // namespace jaxlib_ext
