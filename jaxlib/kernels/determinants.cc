#include "jaxlib/kernels/determinants.h"

#include <cstring>

namespace jaxlib_ext {
namespace {

// A thread gets at least so many matrices.
constexpr size_t kGrain = 1 << 12;
constexpr size_t kElements = 9;
constexpr size_t kLanes = 4;

// Every processor has instructions for four floats.
using Four = float __attribute__((vector_size(kLanes * sizeof(float))));

Four Load(const float* from) {
  Four x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// Of four rows of four numbers, makes the columns.
void Transpose(Four& a, Four& b, Four& c, Four& d) {
  const Four low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5);
  b = __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7);
  c = __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5);
  d = __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7);
}

// The determinants of four matrices, which are side by side.
Four OfFour(const float* p) {
  Four a = Load(p), b = Load(p + 9), c = Load(p + 18), d = Load(p + 27);
  Four e = Load(p + 4), f = Load(p + 13), g = Load(p + 22), h = Load(p + 31);
  const Four i = {p[8], p[17], p[26], p[35]};
  // From the first and the next four elements of each matrix to the elements of all four: a b c / d e f / g h i
  Transpose(a, b, c, d);
  Transpose(e, f, g, h);
  return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
}

void OfRange(const float* matrices, size_t count, float* out) {
  size_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const Four values = OfFour(matrices + kElements * k);
    std::memcpy(out + k, &values, sizeof values);
  }
  if (k == count) return;
  float rest[kElements * kLanes] = {};
  std::memcpy(rest, matrices + kElements * k, kElements * (count - k) * sizeof(float));
  const Four values = OfFour(rest);
  std::memcpy(out + k, &values, (count - k) * sizeof(float));
}

}  // namespace

void Determinants3x3(TaskRunner& runner, const float* matrices, size_t count, float* out) {
  ParallelRanges(runner, count, kGrain, [&](size_t begin, size_t end) {
    OfRange(matrices + kElements * begin, end - begin, out + begin);
  });
}

}  // namespace jaxlib_ext
