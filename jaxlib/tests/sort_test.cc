#include "jaxlib/kernels/sort.h"

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

// Sorts lane by lane through std::stable_sort.
template <typename Less>
std::vector<size_t> Order(const LaneShape& shape, const Less& less) {
  std::vector<size_t> result(shape.num_elements());
  for (size_t outer = 0; outer < shape.outer; ++outer) {
    for (size_t inner = 0; inner < shape.inner; ++inner) {
      std::vector<size_t> lane(shape.size);
      const auto place = [&](size_t i) { return (outer * shape.size + i) * shape.inner + inner; };
      for (size_t i = 0; i < shape.size; ++i) lane[i] = place(i);
      std::stable_sort(lane.begin(), lane.end(), less);
      for (size_t i = 0; i < shape.size; ++i) result[place(i)] = lane[i];
    }
  }
  return result;
}

template <typename T>
std::vector<T> Permuted(const std::vector<T>& x, const std::vector<size_t>& order) {
  std::vector<T> result;
  for (const size_t i : order) result.push_back(x[i]);
  return result;
}

class SortTest : public testing::TestWithParam<std::tuple<LaneShape, size_t>> {
 protected:
  const LaneShape shape_ = std::get<0>(GetParam());
  Threads threads_{std::get<1>(GetParam())};
  std::mt19937 random_{1};

  // Few different ones, so that there are ties.
  template <typename T>
  std::vector<T> Draw(int different) {
    std::vector<T> x(shape_.num_elements());
    for (T& e : x) e = static_cast<T>(static_cast<int>(random_() % static_cast<unsigned>(different)) - different / 2);
    return x;
  }

  template <typename T>
  void CheckValues(ElementType type, const std::vector<T>& x) {
    std::vector<T> out(x.size());
    const SortOperand operand{type, x.data(), out.data()};
    Sort(threads_, shape_, {&operand, 1}, 1);
    EXPECT_EQ(out, Permuted(x, Order(shape_, [&](size_t i, size_t j) { return x[i] < x[j]; })));
  }
};

TEST_P(SortTest, Values) { CheckValues(ElementType::kFloat32, Draw<float>(1000000)); }

// Spread evenly among what has the same highest bits, as buckets want it.
TEST_P(SortTest, SpreadValues) {
  std::vector<float> x(shape_.num_elements());
  for (float& e : x) e = 1.0f + static_cast<float>(random_() >> 9) * 0x1p-23f;
  CheckValues(ElementType::kFloat32, x);
}

TEST_P(SortTest, SpreadPairs) {
  std::vector<uint32_t> x(shape_.num_elements());
  for (uint32_t& e : x) e = static_cast<uint32_t>(random_()) & ~uint32_t{15};
  std::vector<int32_t> positions(x.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<uint32_t> x_out(x.size());
  std::vector<int32_t> positions_out(x.size());
  const std::vector<SortOperand> operands = {
      {ElementType::kUint32, x.data(), x_out.data()},
      {ElementType::kInt32, positions.data(), positions_out.data()}};
  Sort(threads_, shape_, operands, 1);
  const auto order = Order(shape_, [&](size_t i, size_t j) { return x[i] < x[j]; });
  EXPECT_EQ(x_out, Permuted(x, order));
  EXPECT_EQ(positions_out, Permuted(positions, order));
}

TEST_P(SortTest, Bytes) { CheckValues(ElementType::kInt8, Draw<int8_t>(100)); }

// 16, 32, 64, 96, 160 and 224 bits of keys.
TEST_P(SortTest, Keys) {
  const auto a = Draw<int16_t>(3);
  const auto b = Draw<float>(3);
  const auto c = Draw<double>(3);
  const auto d = Draw<uint64_t>(3);
  std::vector<uint8_t> payload(a.size());
  std::iota(payload.begin(), payload.end(), uint8_t{0});
  const std::vector<const char*> all = {"a", "b", "c", "ba", "bc", "dcb", "dcba"};
  for (const char* keys : kWatched ? std::vector{"b", "ba", "dcba"} : all) {
    std::vector<int16_t> a_out(a.size());
    std::vector<float> b_out(a.size());
    std::vector<double> c_out(a.size());
    std::vector<uint64_t> d_out(a.size());
    std::vector<uint8_t> payload_out(a.size());
    std::vector<SortOperand> operands;
    for (const char* key = keys; *key != 0; ++key) {
      if (*key == 'a') operands.push_back({ElementType::kInt16, a.data(), a_out.data()});
      if (*key == 'b') operands.push_back({ElementType::kFloat32, b.data(), b_out.data()});
      if (*key == 'c') operands.push_back({ElementType::kFloat64, c.data(), c_out.data()});
      if (*key == 'd') operands.push_back({ElementType::kUint64, d.data(), d_out.data()});
    }
    const size_t num_keys = operands.size();
    operands.push_back({ElementType::kUint8, payload.data(), payload_out.data()});
    Sort(threads_, shape_, operands, num_keys);
    const auto order = Order(shape_, [&](size_t i, size_t j) {
      for (const char* key = keys; *key != 0; ++key) {
        if (*key == 'a' && a[i] != a[j]) return a[i] < a[j];
        if (*key == 'b' && b[i] != b[j]) return b[i] < b[j];
        if (*key == 'c' && c[i] != c[j]) return c[i] < c[j];
        if (*key == 'd' && d[i] != d[j]) return d[i] < d[j];
      }
      return false;
    });
    EXPECT_EQ(payload_out, Permuted(payload, order)) << keys;
    for (const char* key = keys; *key != 0; ++key) {
      if (*key == 'a') {
        EXPECT_EQ(a_out, Permuted(a, order)) << keys;
      }
      if (*key == 'b') {
        EXPECT_EQ(b_out, Permuted(b, order)) << keys;
      }
      if (*key == 'c') {
        EXPECT_EQ(c_out, Permuted(c, order)) << keys;
      }
      if (*key == 'd') {
        EXPECT_EQ(d_out, Permuted(d, order)) << keys;
      }
    }
  }
}

TEST_P(SortTest, Complex) {
  struct Complex {
    float real, imag;
    bool operator==(const Complex&) const = default;
  };
  const auto real = Draw<float>(3);
  const auto imag = Draw<float>(50);
  std::vector<Complex> x;
  for (size_t i = 0; i < real.size(); ++i) x.push_back({real[i], imag[i]});
  std::vector<Complex> out(x.size());
  const SortOperand operand{ElementType::kComplex64, x.data(), out.data()};
  Sort(threads_, shape_, {&operand, 1}, 1);
  const auto less = [&](size_t i, size_t j) {
    return std::tuple(x[i].real, x[i].imag) < std::tuple(x[j].real, x[j].imag);
  };
  EXPECT_EQ(out, Permuted(x, Order(shape_, less)));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SortTest,
    testing::Combine(testing::Values(LaneShape{1, 0, 1}, LaneShape{0, 3, 2}, LaneShape{1, 1, 1},
                                     LaneShape{4, 1, 3}, LaneShape{1, 2, 1}, LaneShape{1, 300, 1},
                                     LaneShape{3, 20, 37}, LaneShape{1, 64, 64},
                                     LaneShape{700, 16, 1}, LaneShape{20000, 5, 1}, LaneShape{9, 8, 1}, LaneShape{1, 3000, 20},
                                     LaneShape{1, kWatched ? 66000 : 150000, 1},
                                     LaneShape{1, 66000, 2}),
                     testing::ValuesIn(NumThreads({1, 2, 5}, 3))));

}  // namespace
}  // namespace jaxlib_ext
