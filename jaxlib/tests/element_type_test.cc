#include "jaxlib/kernels/element_type.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace jaxlib_ext {
namespace {

// What a float type with a sign bit has between its sign and its mantissa.
struct Format {
  ElementType type;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum { kIeee, kOneNan, kNegativeZeroNan } nans;
};

double ValueOf(const Format& format, unsigned bits) {
  const int width = 1 + format.exponent_bits + format.mantissa_bits;
  const bool negative = bits >> (width - 1);
  const unsigned magnitude = bits & ((1u << (width - 1)) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const unsigned mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const bool last_exponent = exponent == (1 << format.exponent_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double value;
  if (format.nans == Format::kNegativeZeroNan && negative && magnitude == 0) return nan;
  if (format.nans == Format::kOneNan && magnitude + 1 == 1u << (width - 1)) return nan;
  if (format.nans == Format::kIeee && last_exponent) {
    if (mantissa != 0) return nan;
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << format.mantissa_bits),
                       exponent - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

class FloatOrderTest : public testing::TestWithParam<Format> {};

TEST_P(FloatOrderTest, KeysAreInTheOrderOfNumbers) {
  const Format& format = GetParam();
  const unsigned count = 1u << (1 + format.exponent_bits + format.mantissa_bits);
  VisitOrder(format.type, [&](auto order) {
    using Order = decltype(order);
    using Word = typename Order::Word;
    std::vector<double> by_key(count, std::nan(""));
    Word nan_key = 0;
    for (unsigned bits = 0; bits < count; ++bits) {
      double value = ValueOf(format, bits);
      const Word key = Order::ToKey(static_cast<Word>(bits));
      EXPECT_EQ(Order::ToKey(Order::FromKey(key)), key);
      if (std::isnan(value)) {
        if (nan_key != 0) {
          EXPECT_EQ(key, nan_key);
        }
        nan_key = key;
        continue;
      }
      // Subnormal numbers of bfloat16 count as zero.
      if (format.type == ElementType::kBfloat16 && std::abs(value) < 0x1p-126) value = 0;
      if (!std::isnan(by_key[key])) {
        EXPECT_EQ(by_key[key], value);
      }
      by_key[key] = value;
    }
    double last = -std::numeric_limits<double>::infinity();
    bool first = true;
    for (unsigned key = 0; key < count; ++key) {
      if (std::isnan(by_key[key])) continue;
      EXPECT_LT(key, nan_key);
      if (!first) {
        EXPECT_GT(by_key[key], last) << key;
      }
      last = by_key[key];
      first = false;
    }
  });
}

TEST_P(FloatOrderTest, TotalKeysTellZerosApart) {
  const Format& format = GetParam();
  const unsigned count = 1u << (1 + format.exponent_bits + format.mantissa_bits);
  VisitOrder(format.type, [&](auto order) {
    using Order = decltype(order);
    using Word = typename Order::Word;
    const auto key = [](unsigned bits) { return Order::ToTotalKey(static_cast<Word>(bits)); };
    Word least = key(0);
    Word greatest = key(0);
    for (unsigned a = 0; a < count; ++a) {
      if (std::isnan(ValueOf(format, a))) continue;
      EXPECT_EQ(a >= count / 2, key(a) < key(0));
      least = std::min(least, key(a));
      greatest = std::max(greatest, key(a));
      const double next = a + 1 < count ? ValueOf(format, a + 1) : std::nan("");
      if (!std::isnan(next) && a + 1 != count / 2) {
        EXPECT_EQ(ValueOf(format, a) < next, key(a) < key(a + 1));
      }
    }
    for (unsigned a = 0; a < count; ++a) {
      if (!std::isnan(ValueOf(format, a))) continue;
      EXPECT_TRUE(a >= count / 2 ? key(a) < least : key(a) > greatest);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, FloatOrderTest,
    testing::Values(Format{ElementType::kFloat16, 5, 10, 15, Format::kIeee},
                    Format{ElementType::kBfloat16, 8, 7, 127, Format::kIeee},
                    Format{ElementType::kFloat8E3M4, 3, 4, 3, Format::kIeee},
                    Format{ElementType::kFloat8E4M3, 4, 3, 7, Format::kIeee},
                    Format{ElementType::kFloat8E4M3Fn, 4, 3, 7, Format::kOneNan},
                    Format{ElementType::kFloat8E4M3B11Fnuz, 4, 3, 11, Format::kNegativeZeroNan},
                    Format{ElementType::kFloat8E4M3Fnuz, 4, 3, 8, Format::kNegativeZeroNan},
                    Format{ElementType::kFloat8E5M2, 5, 2, 15, Format::kIeee},
                    Format{ElementType::kFloat8E5M2Fnuz, 5, 2, 16, Format::kNegativeZeroNan}));

TEST(OrderTest, Float32) {
  const auto key = [](float x) { return Float32Order::ToKey(std::bit_cast<uint32_t>(x)); };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending = {-infinity, -2, -1.5, -0x1p-126f, 0, 0x1p-126f, 1, infinity};
  for (size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(key(ascending[i - 1]), key(ascending[i]));
  }
  EXPECT_EQ(key(-0.0f), key(0.0f));
  EXPECT_EQ(key(-0x1p-127f), key(0.0f));
  EXPECT_EQ(key(std::nanf("")), key(-std::nanf("7")));
  EXPECT_GT(key(-std::nanf("")), key(infinity));
}

TEST(OrderTest, Integers) {
  using Signed = SignedOrder<uint8_t>;
  EXPECT_EQ(Signed::ToKey(static_cast<uint8_t>(-128)), 0);
  EXPECT_EQ(Signed::ToKey(127), 255);
  EXPECT_EQ(Signed::FromKey(Signed::ToKey(5)), 5);
  EXPECT_EQ(UnsignedOrder<uint64_t>::ToKey(7), 7u);
}

TEST(SizeOfTest, CountsBytes) {
  EXPECT_EQ(SizeOf(ElementType::kBool), 1u);
  EXPECT_EQ(SizeOf(ElementType::kBfloat16), 2u);
  EXPECT_EQ(SizeOf(ElementType::kComplex64), 8u);
  EXPECT_EQ(SizeOf(ElementType::kComplex128), 16u);
}

}  // namespace
}  // namespace jaxlib_ext
