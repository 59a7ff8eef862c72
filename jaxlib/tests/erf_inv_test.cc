#include "jaxlib/kernels/erf_inv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Inverses(const std::vector<float>& x, size_t num_threads) {
  Threads threads(num_threads);
  std::vector<float> y(x.size());
  ErfInv(threads, x.data(), x.size(), y.data());
  return y;
}

// The distance of y from the inverse of x, in units of the last place.
double Error(float x, float y) {
  const double at = y;
  // By Newton's method; of numbers near 1 the distance from it is exact.
  const double distance = std::abs(x) < 0.5 ? std::erf(at) - x
                          : x > 0           ? (1.0 - x) - std::erfc(at)
                                            : std::erfc(-at) - (1.0 + x);
  const double slope = std::exp(-at * at) * 2 / std::sqrt(std::acos(-1.0));
  const double unit = std::nextafter(std::abs(y), kInfinity) - std::abs(y);
  return std::abs(distance / slope / unit);
}

TEST(ErfInvTest, NumbersOfAllSizes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x = {0.875f, std::nextafter(0.875f, 1.0f), std::nextafter(1.0f, 0.0f), 1e-30f};
  while (x.size() < 100000) {
    const float u = uniform(random);
    x.insert(x.end(), {u, u * u * u * u * u, (u < 0 ? -1.0f : 1.0f) - u * u * u * u * u});
  }
  const std::vector<float> y = Inverses(x, 3);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::abs(x[i]) < 1) {
      EXPECT_LT(Error(x[i], y[i]), 4) << x[i] << " " << y[i];
    }
  }
  EXPECT_EQ(y, Inverses(x, 1));
}

TEST(ErfInvTest, ResultsDoNotDependOnThePlace) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(2100);
  for (float& u : x) u = uniform(random);
  const std::vector<float> y = Inverses(x, 1);
  for (const size_t size : {0, 1, 3, 7, 31, 33, 1023, 1025, 2099}) {
    const std::vector<float> part = Inverses({x.end() - static_cast<int64_t>(size), x.end()}, 1);
    EXPECT_EQ(part, std::vector<float>(y.end() - static_cast<int64_t>(size), y.end()));
  }
}

TEST(ErfInvTest, EndsAndBeyond) {
  const std::vector<float> y =
      Inverses({0.0f, -0.0f, 1.0f, -1.0f, 1.5f, -2.0f, kInfinity, -kInfinity, kNan}, 1);
  EXPECT_EQ(y[0], 0);
  EXPECT_FALSE(std::signbit(y[0]));
  EXPECT_TRUE(std::signbit(y[1]));
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], -kInfinity);
  for (size_t i = 4; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

}  // namespace
}  // namespace jaxlib_ext
