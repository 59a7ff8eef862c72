#include "jaxlib/kernels/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "jaxlib/kernels/element_type.h"
#include "jaxlib/tests/threads.h"

namespace jaxlib_ext {
namespace {

using Numbers = std::vector<double>;

struct Case {
  std::string name;
  AttentionShape shape;
  AttentionMask mask = {};
};

struct Arrays {
  Numbers query;
  Numbers key;
  Numbers value;
  Numbers cotangent;
};

struct Results {
  Numbers out;
  Numbers log_sums;
  Numbers query;
  Numbers key;
  Numbers value;
};

size_t Place(const AttentionShape& s, size_t length, size_t heads, size_t b, size_t t, size_t n) {
  return (s.heads_first ? (b * heads + n) * length + t : (b * length + t) * heads + n) * s.size;
}

bool Counts(const AttentionMask& mask, size_t b, size_t n, size_t t, size_t s) {
  const auto i = static_cast<int64_t>(t);
  const auto j = static_cast<int64_t>(s);
  if (mask.causal && j > i) return false;
  if (mask.windowed && (j < i - mask.before || j > i + mask.after)) return false;
  if (mask.query_lengths != nullptr && i >= mask.query_lengths[b]) return false;
  if (mask.key_lengths != nullptr && j >= mask.key_lengths[b]) return false;
  const size_t* strides = mask.strides;
  return mask.allowed == nullptr ||
         mask.allowed[b * strides[0] + n * strides[1] + t * strides[2] + s * strides[3]] != 0;
}

// What the definition says.
Results Expected(const AttentionShape& s, const AttentionMask& mask, const Arrays& in) {
  Results out = {Numbers(in.query.size()), Numbers(s.batch * s.heads * s.queries), Numbers(in.query.size()),
                 Numbers(in.key.size()), Numbers(in.key.size())};
  Numbers weights(s.keys);
  Numbers cotangents(s.keys);
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t n = 0; n < s.heads; ++n) {
      const size_t head = n / (s.heads / s.key_heads);
      for (size_t t = 0; t < s.queries; ++t) {
        const size_t q = Place(s, s.queries, s.heads, b, t, n);
        const auto key = [&](size_t j) { return Place(s, s.keys, s.key_heads, b, j, head); };
        for (size_t j = 0; j < s.keys; ++j) {
          double logit = 0;
          for (size_t i = 0; i < s.size; ++i) logit += in.query[q + i] * in.key[key(j) + i];
          weights[j] = Counts(mask, b, n, t, j) ? logit * s.scale : kMaskedLogit;
        }
        const double largest = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double& w : weights) sum += w = std::exp(w - largest);
        out.log_sums[(b * s.heads + n) * s.queries + t] = largest + std::log(sum);
        for (double& w : weights) w /= sum;
        if (mask.query_lengths != nullptr && static_cast<int64_t>(t) >= mask.query_lengths[b]) continue;
        double mean = 0;
        for (size_t j = 0; j < s.keys; ++j) {
          double cotangent = 0;
          for (size_t i = 0; i < s.size; ++i) {
            out.out[q + i] += weights[j] * in.value[key(j) + i];
            out.value[key(j) + i] += weights[j] * in.cotangent[q + i];
            cotangent += in.cotangent[q + i] * in.value[key(j) + i];
          }
          cotangents[j] = cotangent;
          mean += weights[j] * cotangent;
        }
        for (size_t j = 0; j < s.keys; ++j) {
          if (!Counts(mask, b, n, t, j)) continue;
          const double cotangent = weights[j] * (cotangents[j] - mean) * s.scale;
          for (size_t i = 0; i < s.size; ++i) {
            out.query[q + i] += cotangent * in.key[key(j) + i];
            out.key[key(j) + i] += cotangent * in.query[q + i];
          }
        }
      }
    }
  }
  return out;
}

struct AsBfloat16 {
  uint16_t bits;
  explicit AsBfloat16(double x = 0)
      : bits(static_cast<uint16_t>((std::bit_cast<uint32_t>(static_cast<float>(x)) + 0x8000) >> 16)) {}
  explicit operator double() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

template <typename T>
std::vector<T> As(const Numbers& x) {
  std::vector<T> out;
  for (const double e : x) out.push_back(static_cast<T>(e));
  return out;
}

template <typename T>
Numbers Back(const std::vector<T>& x) {
  Numbers out;
  for (const T e : x) out.push_back(static_cast<double>(e));
  return out;
}

template <typename T, typename Sum>
Results RunCase(TaskRunner& runner, const Case& of, const Arrays& in) {
  const AttentionShape& s = of.shape;
  const auto query = As<T>(in.query);
  const auto key = As<T>(in.key);
  const auto value = As<T>(in.value);
  const auto cotangent = As<T>(in.cotangent);
  std::vector<T> out(query.size());
  std::vector<T> query_gradient(query.size());
  std::vector<T> key_gradient(key.size());
  std::vector<T> value_gradient(key.size());
  std::vector<Sum> log_sums(s.batch * s.heads * s.queries);
  Attention(runner, s, of.mask, query.data(), key.data(), value.data(), out.data(), log_sums.data());
  AttentionGradient(runner, s, of.mask, query.data(), key.data(), value.data(), out.data(), log_sums.data(),
                    cotangent.data(), {query_gradient.data(), key_gradient.data(), value_gradient.data()});
  return {Back(out), Back(log_sums), Back(query_gradient), Back(key_gradient), Back(value_gradient)};
}

Numbers Draw(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Numbers out(size);
  // Numbers that bfloat16 has.
  for (double& x : out) x = static_cast<double>(AsBfloat16(normal(random)));
  return out;
}

Arrays Inputs(const AttentionShape& s) {
  const size_t queries = s.batch * s.queries * s.heads * s.size;
  const size_t keys = s.batch * s.keys * s.key_heads * s.size;
  return {Draw(queries, 1), Draw(keys, 2), Draw(keys, 3), Draw(queries, 4)};
}

void ExpectClose(const Numbers& x, const Numbers& expected, double tolerance, const std::string& what) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(x[i] - expected[i]));
    ASSERT_FALSE(std::isnan(x[i])) << what;
  }
  // Weights below the normal numbers are zeros.
  constexpr double kUnderflow = 1e-300;
  EXPECT_LE(difference, tolerance * largest + kUnderflow) << what;
}

void ExpectClose(const Results& x, const Results& expected, double tolerance, const std::string& name) {
  ExpectClose(x.out, expected.out, tolerance, name + ": attention");
  ExpectClose(x.log_sums, expected.log_sums, tolerance, name + ": logarithms of sums");
  ExpectClose(x.query, expected.query, tolerance, name + ": gradient by queries");
  ExpectClose(x.key, expected.key, tolerance, name + ": gradient by keys");
  ExpectClose(x.value, expected.value, tolerance, name + ": gradient by values");
}

AttentionShape Shape(size_t batch, size_t queries, size_t keys, size_t heads, size_t key_heads, size_t size) {
  return {ElementType::kFloat64, batch, queries, keys, heads, key_heads, size, false, 1 / std::sqrt(static_cast<double>(size))};
}

constexpr int32_t kQueryLengths[] = {20, 99};
constexpr int32_t kKeyLengths[] = {0, 150};

// Some queries may attend to no key at all, and some only to those of the last tile.
std::vector<uint8_t> DrawMask(size_t size) {
  std::mt19937 random(5);
  std::vector<uint8_t> mask(size);
  for (size_t i = 0; i < size; ++i) mask[i] = i >= 900 && random() % 3 != 0;
  return mask;
}

std::vector<Case> Cases(const std::vector<uint8_t>& mask) {
  std::vector<Case> cases = {{"one", Shape(1, 1, 1, 1, 1, 1)},
                             {"less than a panel", Shape(1, 3, 5, 2, 1, 3)},
                             {"tiles", Shape(2, 97, 260, 2, 2, 32)},
                             {"groups", Shape(2, 50, 130, 6, 2, 20)},
                             {"long", Shape(1, 200, 1100, 1, 1, 17)},
                             {"causal", Shape(2, 130, 270, 2, 2, 16), {.causal = true}},
                             {"causal, more queries", Shape(1, 300, 70, 2, 1, 16), {.causal = true}},
                             {"window", Shape(1, 150, 400, 2, 1, 16), {.windowed = true, .before = 5, .after = 200}},
                             {"window that ends", Shape(1, 300, 60, 1, 1, 16), {.windowed = true, .before = 3}},
                             {"empty windows",
                              Shape(1, 60, 60, 1, 1, 16),
                              {.windowed = true, .before = -70, .after = std::numeric_limits<int64_t>::max()}},
                             {"lengths",
                              Shape(2, 100, 260, 2, 1, 16),
                              {.query_lengths = kQueryLengths, .key_lengths = kKeyLengths}}};
  const AttentionShape shape = Shape(2, 100, 300, 2, 1, 16);
  cases.push_back({"mask", shape, {.allowed = mask.data(), .strides = {100 * 300, 0, 300, 1}}});
  cases.push_back({"mask of queries", shape, {.causal = true, .allowed = mask.data() + 850, .strides = {0, 100, 1, 0}}});
  cases.push_back({"mask of keys", shape, {.causal = true, .allowed = mask.data() + 700, .strides = {300, 0, 0, 1}}});
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    Case other = cases[i];
    other.name += ", heads first";
    other.shape.heads_first = true;
    cases.push_back(other);
  }
  return cases;
}

TEST(AttentionTest, AllTypesMasksAndThreads) {
  const auto mask = DrawMask(2 * 100 * 300);
  Threads threads(3);
  SerialRunner serial;
  for (Case& of : Cases(mask)) {
    const Arrays in = Inputs(of.shape);
    const Results expected = Expected(of.shape, of.mask, in);
    const Results doubles = RunCase<double, double>(serial, of, in);
    ExpectClose(doubles, expected, 1e-13, of.name + ", double");
    const Results shared = RunCase<double, double>(threads, of, in);
    EXPECT_EQ(doubles.out, shared.out) << of.name;
    EXPECT_EQ(doubles.query, shared.query) << of.name;
    EXPECT_EQ(doubles.key, shared.key) << of.name;
    EXPECT_EQ(doubles.value, shared.value) << of.name;
    of.shape.type = ElementType::kFloat32;
    ExpectClose(RunCase<float, float>(threads, of, in), expected, 2e-5, of.name + ", float");
    of.shape.type = ElementType::kBfloat16;
    ExpectClose(RunCase<AsBfloat16, float>(threads, of, in), expected, 2e-2, of.name + ", bfloat16");
  }
}

TEST(AttentionTest, LargeLogitsDoNotOverflow) {
  Case of = {"large", Shape(1, 50, 300, 1, 1, 16)};
  of.shape.scale = 1e4;
  const Arrays in = Inputs(of.shape);
  SerialRunner serial;
  ExpectClose(RunCase<double, double>(serial, of, in), Expected(of.shape, of.mask, in), 1e-9, "double");
}

TEST(AttentionTest, NansReachTheirQueriesOnly) {
  Case of = {"nans", Shape(1, 60, 300, 1, 1, 16)};
  of.shape.type = ElementType::kFloat32;
  Arrays in = Inputs(of.shape);
  in.query[5 * 16] = std::numeric_limits<double>::quiet_NaN();
  SerialRunner serial;
  const Results out = RunCase<float, float>(serial, of, in);
  for (size_t i = 0; i < out.out.size(); ++i) EXPECT_EQ(std::isnan(out.out[i]), i / 16 == 5) << i;
}

}  // namespace
}  // namespace jaxlib_ext
