#include "jaxlib/kernels/csr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

struct Sizes {
  size_t rows, columns, elements, width;
};

class CsrTest : public testing::TestWithParam<std::tuple<Sizes, size_t>> {
 protected:
  // Small integers, whose sums are exact in any order.
  template <typename T, typename Index>
  void Check(ElementType type) {
    const auto [rows, columns, elements, width] = std::get<0>(GetParam());
    std::mt19937 random(1);
    std::vector<T> data(elements);
    std::vector<Index> indices(elements);
    std::vector<Index> indptr(rows + 1);
    for (T& x : data) x = static_cast<T>(random() % 5);
    for (Index& i : indices) i = static_cast<Index>(random() % std::max<size_t>(columns, 1));
    for (Index& i : indptr) i = static_cast<Index>(random() % (elements + 1));
    std::sort(indptr.begin(), indptr.end());
    indptr[0] = 0;
    for (const bool transpose : {false, true}) {
      const size_t in = transpose ? rows : columns;
      const size_t out = transpose ? columns : rows;
      std::vector<T> dense(in * width);
      for (T& x : dense) x = static_cast<T>(random() % 5);
      std::vector<T> expected(out * width);
      for (size_t row = 0; row < rows; ++row) {
        for (auto i = static_cast<size_t>(indptr[row]); i < static_cast<size_t>(indptr[row + 1]); ++i) {
          const auto column = static_cast<size_t>(indices[i]);
          if (columns == 0) continue;
          for (size_t j = 0; j < width; ++j) {
            const size_t from = transpose ? row : column;
            const size_t to = transpose ? column : row;
            expected[to * width + j] =
                static_cast<T>(expected[to * width + j] + data[i] * dense[from * width + j]);
          }
        }
      }
      // What is behind the last row is padding with zeros.
      std::fill(data.begin() + static_cast<int64_t>(indptr.back()), data.end(), T{});
      std::vector<T> product(out * width, static_cast<T>(7));
      Threads threads(std::get<1>(GetParam()));
      const CsrMatrix matrix{{type, sizeof(Index) == 8, elements, rows, columns, data.data()},
                             indices.data(),
                             indptr.data()};
      CsrProduct(threads, matrix, transpose, dense.data(), width, product.data());
      ASSERT_EQ(product, expected) << transpose;
    }
  }
};

TEST_P(CsrTest, Types) {
  Check<float, int32_t>(ElementType::kFloat32);
  Check<double, int64_t>(ElementType::kFloat64);
  Check<std::complex<float>, int64_t>(ElementType::kComplex64);
  Check<std::complex<double>, int32_t>(ElementType::kComplex128);
  Check<int8_t, int32_t>(ElementType::kInt8);
  Check<uint16_t, int32_t>(ElementType::kUint16);
  Check<int32_t, int32_t>(ElementType::kInt32);
  Check<uint64_t, int64_t>(ElementType::kUint64);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CsrTest,
                         testing::Combine(testing::Values(Sizes{0, 0, 0, 1}, Sizes{0, 3, 2, 2},
                                                          Sizes{3, 0, 0, 1}, Sizes{3, 4, 0, 1},
                                                          Sizes{1, 1, 1, 1}, Sizes{7, 5, 20, 1},
                                                          Sizes{7, 5, 20, 0}, Sizes{40, 30, 200, 13},
                                                          Sizes{3, 900, 90000, 1},
                                                          Sizes{2000, 50, 90000, 1},
                                                          Sizes{300, 20, 9000, 19}),
                                          testing::ValuesIn(NumThreads({1, 3}, 3))));

class CsrIndicesTest : public testing::Test {
 protected:
  std::vector<float> Product(std::vector<int32_t> indices, std::vector<int32_t> indptr,
                             bool transpose = false) {
    const std::vector<float> data = {1, 2, 3, 4};
    const std::vector<float> dense = {1, 10, 100};
    SerialRunner runner;
    std::vector<float> out(transpose ? 3 : 2);
    CsrProduct(runner,
               {{ElementType::kFloat32, false, 4, 2, 3, data.data()}, indices.data(), indptr.data()},
               transpose, dense.data(), 1, out.data());
    return out;
  }
};

TEST_F(CsrIndicesTest, ColumnsOutOfRange) {
  EXPECT_EQ(Product({0, 7, -1, 1}, {0, 2, 4}), (std::vector<float>{201, 340}));
  EXPECT_EQ(Product({0, 7, -1, 1}, {0, 2, 3}), (std::vector<float>{201, 300}));
  EXPECT_EQ(Product({0, 7, -1, 1}, {0, 2, 4}, true), (std::vector<float>{1, 40, 30}));
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(Product({kLeast, -4, -3, 1}, {0, 2, 4}), (std::vector<float>{3, 43}));
  EXPECT_EQ(Product({kLeast, -4, -3, 1}, {0, 2, 4}, true), (std::vector<float>{30, 40, 0}));
}

TEST_F(CsrIndicesTest, RowsOutOfOrder) {
  // Elements before the first row belong to row -1, the last.
  EXPECT_EQ(Product({0, 1, 2, 1}, {1, 2, 4}), (std::vector<float>{20, 341}));
  EXPECT_EQ(Product({0, 1, 2, 1}, {0, 2, 9}), (std::vector<float>{21, 340}));
  EXPECT_EQ(Product({0, 1, 2, 1}, {0, -2, 3}), (std::vector<float>{21, 300}));
  EXPECT_EQ(Product({0, 1, 2, 1}, {0, 3, 2}), (std::vector<float>{21, 300}));
  EXPECT_EQ(Product({0, 1, 2, 1}, {3, 1, 2}), (std::vector<float>{20, 301}));
}

}  // namespace
}  // namespace jaxlib_ext
