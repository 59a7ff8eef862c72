#include "jaxlib/kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace jaxlib_ext {
namespace {

template <typename T>
class ElementwiseTest : public testing::Test {
 protected:
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  static constexpr ElementType kType = sizeof(T) == 8 ? ElementType::kFloat64 : ElementType::kFloat32;

  static std::vector<T> Draw(size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<T> normal;
    const T special[] = {T{0}, -T{0}, kInfinity, -kInfinity, kNan, std::numeric_limits<T>::max(), T{1}};
    std::vector<T> x(size);
    for (T& e : x) e = random() % 3 == 0 ? special[random() % 7] : normal(random);
    return x;
  }

  static std::vector<T> Run(const std::vector<ElementwiseStep>& steps, const std::vector<T>& a,
                            const std::vector<T>& b) {
    std::vector<T> out(a.size());
    const ElementwiseOperand operands[] = {{a.data(), false}, {b.data(), b.size() == 1}};
    Elementwise(kType, operands, steps, a.size(), out.data());
    return out;
  }

  static T Largest(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return kNan;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }

  static T Expected(ElementwiseOperation operation, T a, T b) {
    switch (operation) {
      case ElementwiseOperation::kAdd:
        return a + b;
      case ElementwiseOperation::kSubtract:
        return a - b;
      case ElementwiseOperation::kMultiply:
        return a * b;
      case ElementwiseOperation::kDivide:
        return a / b;
      case ElementwiseOperation::kMaximum:
        return Largest(a, b);
      case ElementwiseOperation::kMinimum:
        return -Largest(-a, -b);
      case ElementwiseOperation::kNegate:
        return -a;
      case ElementwiseOperation::kAbsolute:
        return std::fabs(a);
      case ElementwiseOperation::kSquareRoot:
        return std::sqrt(a);
    }
    return a;
  }

  // To the bit, but that a NaN is one.
  static bool Same(T a, T b) {
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(T)) == 0;
  }
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementwiseTest, Types);

TYPED_TEST(ElementwiseTest, OperationsOnArraysOfAllSizesAndScalars) {
  for (const size_t size : {0, 1, 5, 16, 255, 256, 257, 1000}) {
    const auto a = this->Draw(size, 1);
    for (const size_t other : {size, size_t{1}}) {
      const auto b = this->Draw(other, 2);
      for (int64_t i = 0; i <= static_cast<int64_t>(ElementwiseOperation::kSquareRoot); ++i) {
        const auto operation = static_cast<ElementwiseOperation>(i);
        const auto out = this->Run({{operation, 0, 1}}, a, b);
        for (size_t j = 0; j < size; ++j) {
          const TypeParam y = b[other == size ? j : 0];
          EXPECT_TRUE(this->Same(out[j], this->Expected(operation, a[j], y)))
              << i << " of " << a[j] << " and " << y << " is " << out[j];
        }
      }
    }
  }
}

TYPED_TEST(ElementwiseTest, StepsUseEarlierOnes) {
  const auto a = this->Draw(700, 1);
  const auto b = this->Draw(1, 9);
  const auto out = this->Run({{ElementwiseOperation::kMultiply, 0, 0},
                              {ElementwiseOperation::kMaximum, 2, 1},
                              {ElementwiseOperation::kSquareRoot, 3, 0},
                              {ElementwiseOperation::kDivide, 4, 0}},
                             a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const TypeParam expected = std::sqrt(this->Largest(a[i] * a[i], b[0])) / a[i];
    EXPECT_TRUE(this->Same(out[i], expected)) << a[i] << " " << out[i];
  }
}

TYPED_TEST(ElementwiseTest, TheResultMayBeAnOperand) {
  auto a = this->Draw(600, 1);
  const auto expected = this->Run({{ElementwiseOperation::kAdd, 0, 0}}, a, a);
  const ElementwiseOperand operands[] = {{a.data(), false}};
  const ElementwiseStep steps[] = {{ElementwiseOperation::kAdd, 0, 0}};
  Elementwise(this->kType, operands, steps, a.size(), a.data());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(this->Same(a[i], expected[i]));
}

}  // namespace
}  // namespace jaxlib_ext
