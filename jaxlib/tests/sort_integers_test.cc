#include "jaxlib/kernels/sort_integers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

template <typename Packed>
Packed Draw(std::mt19937_64& random, unsigned bits) {
  const uint64_t x = random() >> (64 - std::min(bits, 64u));
  return FromUint64<Packed>(x);
}

template <>
Wide Draw(std::mt19937_64& random, unsigned bits) {
  if (bits <= 64) return {random() >> (64 - bits), 0};
  return {random(), random() >> (128 - bits)};
}

// Copies each range as soon as it is ready.
template <typename Packed>
std::vector<Packed> SortedInParallel(size_t num_threads, const std::vector<Packed>& x,
                                     unsigned low_bit, unsigned high_bit) {
  Threads threads(num_threads);
  std::vector<Packed> data(x.size());
  std::vector<Packed> scratch(x.size());
  std::vector<Packed> result(x.size());
  SortIntegersInParallel<Packed>(
      threads, data.data(), scratch.data(), x.size(), low_bit, high_bit,
      [&](Packed* to, size_t begin, size_t end) {
        std::copy(x.data() + begin, x.data() + end, to + begin);
      },
      [&](size_t begin, size_t end) {
        std::copy(data.data() + begin, data.data() + end, result.data() + begin);
      });
  return result;
}

template <typename Packed>
class SortIntegersTest : public testing::Test {};

using Types = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t, Wide>;
TYPED_TEST_SUITE(SortIntegersTest, Types);

TYPED_TEST(SortIntegersTest, Sorts) {
  std::mt19937_64 random(1);
  for (const size_t size : {0, 1, 2, 3, 17, 64, 65, 1000, 2048, 5000, 131072, 200001}) {
    if (kWatched && size > 150000) continue;
    for (const unsigned bits : {1u, 7u, kBits<TypeParam>}) {
      std::vector<TypeParam> data(size);
      for (TypeParam& x : data) x = Draw<TypeParam>(random, bits);
      std::vector<TypeParam> expected = data;
      std::sort(expected.begin(), expected.end());
      std::vector<TypeParam> scratch(size);
      std::vector<TypeParam> sorted = data;
      SortIntegers(sorted.data(), scratch.data(), size, 0, bits);
      EXPECT_EQ(sorted, expected);
      for (const size_t num_threads : NumThreads({1, 2, 3, 4, 5}, 4)) {
        EXPECT_EQ(SortedInParallel(num_threads, data, 0, bits), expected);
      }
    }
  }
}

TEST(SortPositionsTest, KeepsPositionsBelowKeys) {
  constexpr size_t kSize = 100000;
  std::mt19937_64 random(1);
  for (const unsigned key_bits : {8u, 40u}) {
    std::vector<uint64_t> data(kSize);
    for (size_t i = 0; i < kSize; ++i) data[i] = (random() >> (64 - key_bits)) << 24 | i;
    std::vector<uint64_t> expected = data;
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(SortedInParallel(4, data, 24, 24 + key_bits), expected);
  }
}

// Integers that are spread evenly are put into buckets, others are not.
TYPED_TEST(SortIntegersTest, SortsSpreadIntegers) {
  constexpr size_t kSize = 140001;
  constexpr unsigned kShift = kBits<TypeParam> > 32 ? 24 : 0;
  std::mt19937_64 random(1);
  for (const unsigned bits : {10u, 20u, 31u}) {
    for (const bool outlier : {false, true}) {
      std::vector<TypeParam> data(kSize);
      for (TypeParam& x : data) {
        x = FromUint64<TypeParam>(uint64_t{1} << 40 | (random() >> (64 - bits)) << kShift);
      }
      if (outlier) data[77] = FromUint64<TypeParam>(~uint64_t{0});
      std::vector<TypeParam> expected = data;
      std::sort(expected.begin(), expected.end());
      std::vector<TypeParam> scratch(kSize);
      EXPECT_EQ(SortedInParallel(2, data, 0, kBits<TypeParam>), expected);
      SortIntegers(data.data(), scratch.data(), kSize);
      EXPECT_EQ(data, expected);
    }
  }
}

TEST(SortPairsTest, KeepsOrderOfEqualKeys) {
  std::mt19937_64 random(1);
  // The last are few keys that are spread evenly: large buckets.
  using Bits = std::pair<unsigned, unsigned>;
  for (const auto& [key_bits, zero_bits] :
       {Bits{1, 0}, Bits{8, 0}, Bits{16, 0}, Bits{20, 0}, Bits{32, 0}, Bits{32, 26}}) {
    std::vector<uint64_t> x(150001);
    for (uint64_t& pair : x) {
      const uint64_t key = random() >> (64 - key_bits) >> zero_bits << zero_bits;
      pair = key << 32 | (random() & 0xFFFFFFFF);
    }
    std::vector<uint64_t> expected = x;
    std::stable_sort(expected.begin(), expected.end(),
                     [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; });
    for (const size_t num_threads : NumThreads({1, 2, 3, 5}, 3)) {
      Threads threads(num_threads);
      std::vector<uint64_t> data(x.size());
      std::vector<uint64_t> scratch(x.size());
      std::vector<uint64_t> result(x.size());
      SortPairsInParallel(
          threads, data.data(), scratch.data(), x.size(), key_bits,
          [&](uint64_t* to, size_t begin, size_t end) {
            std::copy(x.data() + begin, x.data() + end, to + begin);
          },
          [&](size_t begin, size_t end) {
            std::copy(data.data() + begin, data.data() + end, result.data() + begin);
          });
      EXPECT_EQ(result, expected);
    }
  }
}

TEST(WideTest, Appends) {
  const Wide x = Append(Append(Wide{5, 0}, 0xFFFFFFFFFFFFFFFF, 64), 3, 2);
  EXPECT_EQ(x, (Wide{0xFFFFFFFFFFFFFFFF, 5 * 4 + 3}));
  EXPECT_EQ(Append(x, 0, 0), x);
  EXPECT_EQ(Digit(x, 64), 23u);
  EXPECT_LT((Wide{9, 1}), (Wide{0, 2}));
  EXPECT_LT((Wide{8, 1}), (Wide{9, 1}));
}

}  // namespace
}  // namespace jaxlib_ext
