// vector_attention.h where Highway is not at hand.

#include "jaxlib/kernels/vector_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace jaxlib_ext {
namespace {

template <typename T>
void Multiply(const TileProduct<T>& of) {
  for (size_t panel = 0; panel < of.panels; ++panel) {
    for (size_t i = 0; i < of.rows; ++i) {
      T* c = of.c + i * of.c_row + panel * kPanel<T>;
      T sums[kPanel<T>] = {};
      if (of.accumulate) std::copy_n(c, kPanel<T>, sums);
      for (size_t k = 0; k < of.depth; ++k) {
        const T factor = of.a[i * of.a_row + k * of.a_depth];
        const T* row = of.b + panel * of.b_panel + k * kPanel<T>;
        for (size_t j = 0; j < kPanel<T>; ++j) sums[j] += factor * row[j];
      }
      std::copy_n(sums, kPanel<T>, c);
    }
  }
}

template <typename T>
T ScaledMaximum(T* x, size_t size, T scale) {
  T largest = -std::numeric_limits<T>::infinity();
  for (size_t i = 0; i < size; ++i) {
    x[i] *= scale;
    largest = std::max(largest, x[i]);
  }
  return largest;
}

template <typename T>
T Exponentials(T* x, size_t size, T shift) {
  T sum = 0;
  for (size_t i = 0; i < size; ++i) sum += x[i] = std::exp(x[i] - shift);
  return sum;
}

template <typename T>
void LogitGradients(T* logits, T* cotangents, size_t size, T scale, T shift, T mean) {
  for (size_t i = 0; i < size; ++i) {
    logits[i] = std::exp(logits[i] * scale - shift);
    cotangents[i] = logits[i] * scale * (cotangents[i] - mean);
  }
}

}  // namespace

void VectorTileProduct(const TileProduct<float>& product) { Multiply(product); }
void VectorTileProduct(const TileProduct<double>& product) { Multiply(product); }

float VectorScaledMaximum(float* x, size_t size, float scale) { return ScaledMaximum(x, size, scale); }
double VectorScaledMaximum(double* x, size_t size, double scale) { return ScaledMaximum(x, size, scale); }

float VectorExponentials(float* x, size_t size, float shift) { return Exponentials(x, size, shift); }
double VectorExponentials(double* x, size_t size, double shift) { return Exponentials(x, size, shift); }

void VectorLogitGradients(float* logits, float* cotangents, size_t size, float scale, float shift, float mean) {
  LogitGradients(logits, cotangents, size, scale, shift, mean);
}
void VectorLogitGradients(double* logits, double* cotangents, size_t size, double scale, double shift, double mean) {
  LogitGradients(logits, cotangents, size, scale, shift, mean);
}

}  // namespace jaxlib_ext
