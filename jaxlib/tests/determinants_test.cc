#include "jaxlib/kernels/determinants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

std::vector<float> Determinants(const std::vector<float>& matrices, size_t num_threads) {
  Threads threads(num_threads);
  std::vector<float> out(matrices.size() / 9);
  Determinants3x3(threads, matrices.data(), out.size(), out.data());
  return out;
}

TEST(DeterminantsTest, RandomMatrices) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const size_t count : {0, 1, 3, 4, 5, 4097, 20003}) {
    std::vector<float> matrices(9 * count);
    for (float& x : matrices) x = normal(random);
    const std::vector<float> out = Determinants(matrices, 3);
    for (size_t k = 0; k < count; ++k) {
      const float* p = &matrices[9 * k];
      double expected = 0;
      double size = 0;
      for (const auto& [i, j, l, sign] : {std::tuple{0, 4, 8, 1}, {1, 5, 6, 1}, {2, 3, 7, 1}, {2, 4, 6, -1}, {1, 3, 8, -1}, {0, 5, 7, -1}}) {
        const double product = static_cast<double>(p[i]) * p[j] * p[l];
        expected += sign * product;
        size += std::abs(product);
      }
      EXPECT_NEAR(out[k], expected, 4 * std::numeric_limits<float>::epsilon() * size) << k;
    }
    EXPECT_EQ(out, Determinants(matrices, 1));
  }
}

TEST(DeterminantsTest, SpecialNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> matrices;
  for (const float x : {2.0f, infinity, std::numeric_limits<float>::quiet_NaN(), 1e-30f, -0.0f}) {
    matrices.insert(matrices.end(), {x, 0, 0, 1, 1, 0, 1, 0, 1});
  }
  const std::vector<float> out = Determinants(matrices, 1);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], infinity);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 1e-30f);
  EXPECT_EQ(out[4], 0);
}

}  // namespace
}  // namespace jaxlib_ext
