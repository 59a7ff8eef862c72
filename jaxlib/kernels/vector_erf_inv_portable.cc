// vector_erf_inv.h where Highway is not at hand.

#include <cmath>
#include <cstddef>
#include <limits>

#include "jaxlib/kernels/erf_inv_tables.h"
#include "jaxlib/kernels/vector_erf_inv.h"

namespace jaxlib_ext {
namespace {

template <size_t size>
float Polynomial(float x, const float (&coefficients)[size]) {
  float out = coefficients[size - 1];
  for (size_t i = size - 1; i-- > 0;) out = out * x + coefficients[i];
  return out;
}

float ErfInvOf(float x) {
  const float distance = std::fma(-x, x, kErfInvCenter);
  if (!(distance < 0)) {
    const float rest = Polynomial(distance, kErfInvAbove) / Polynomial(distance, kErfInvBelow);
    return std::copysign(x + x * rest, x);  // also of -0.0
  }
  const float product = (1 - x) * (1 + x);
  if (product == 0) return x * std::numeric_limits<float>::infinity();
  if (product < 0) return std::numeric_limits<float>::quiet_NaN();
  const float u = -std::log2(product);
  return x * (Polynomial(u, kErfInvTailAbove) / Polynomial(u, kErfInvTailBelow));
}

}  // namespace

void VectorErfInv(const float* in, size_t size, float* out) {
  for (size_t i = 0; i < size; ++i) out[i] = ErfInvOf(in[i]);
}

}  // namespace jaxlib_ext
