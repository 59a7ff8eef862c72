#include "jaxlib/kernels/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

// Several threads look for the largest of so many; nearly all of them are sorted if the eighth part is wanted.
constexpr size_t kLong = kWatched ? 270000 : 600000;
constexpr size_t kMany = kWatched ? 40000 : 150000;

struct Rows {
  size_t count, size, k;
};

class TopKTest : public testing::TestWithParam<std::tuple<Rows, size_t>> {
 protected:
  template <typename T>
  void Check(ElementType type, std::vector<T> x) {
    const auto [count, size, k] = std::get<0>(GetParam());
    Threads threads(std::get<1>(GetParam()));
    x.resize(count * size);
    std::vector<T> values(count * k);
    std::vector<int32_t> indices(count * k);
    TopK(threads, type, x.data(), count, size, k, values.data(), indices.data());
    for (size_t row = 0; row < count; ++row) {
      const T* begin = x.data() + row * size;
      std::vector<int32_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t i, int32_t j) { return begin[i] > begin[j]; });
      for (size_t i = 0; i < k; ++i) {
        ASSERT_EQ(indices[row * k + i], order[i]) << row << " " << i;
        ASSERT_EQ(values[row * k + i], begin[order[i]]);
      }
    }
  }

  template <typename T>
  std::vector<T> Draw(int different) {
    const Rows rows = std::get<0>(GetParam());
    std::mt19937 random(1);
    std::vector<T> x(rows.count * rows.size);
    for (T& e : x) e = static_cast<T>(static_cast<int>(random() % static_cast<unsigned>(different)) - different / 2);
    return x;
  }
};

TEST_P(TopKTest, Random) {
  Check(ElementType::kFloat32, Draw<float>(1000000));
  Check(ElementType::kInt64, Draw<int64_t>(1000000));
}

TEST_P(TopKTest, Ties) {
  Check(ElementType::kInt8, Draw<int8_t>(100));
  Check(ElementType::kUint16, Draw<uint16_t>(10));
  Check(ElementType::kFloat64, Draw<double>(2));
}

TEST_P(TopKTest, Ascending) {
  std::vector<float> x = Draw<float>(1000000);
  std::sort(x.begin(), x.end());
  Check(ElementType::kFloat32, x);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, TopKTest,
    testing::Combine(testing::Values(Rows{0, 5, 2}, Rows{1, 5, 0}, Rows{1, 1, 1}, Rows{3, 7, 7},
                                     Rows{50, 1000, 3}, Rows{50, 1000, 200}, Rows{1, 5000, 4999},
                                     Rows{1, kLong, 100}, Rows{1, kLong, kMany}),
                     testing::ValuesIn(NumThreads({1, 3}, 3))));

}  // namespace
}  // namespace jaxlib_ext
