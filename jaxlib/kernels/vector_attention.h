// What attention does with tiles of logits, with vector instructions.

#ifndef JAXLIB_KERNELS_VECTOR_ATTENTION_H_
#define JAXLIB_KERNELS_VECTOR_ATTENTION_H_

#include <cstddef>

namespace jaxlib_ext {

// The second factor of a product is stored in panels of so many columns, which are a cache line.
template <typename T>
inline constexpr size_t kPanel = 64 / sizeof(T);

// c += a @ b, or c = a @ b. Element (i, k) of `a` is at `a[i * a_row + k * a_depth]`, (k, j) of `b` at
// `b[j / kPanel * b_panel + k * kPanel + j % kPanel]`, (i, j) of `c` at `c[i * c_row + j]`.
template <typename T>
struct TileProduct {
  const T* a;
  size_t a_row;
  size_t a_depth;
  const T* b;
  size_t b_panel;
  T* c;
  size_t c_row;
  size_t rows;
  size_t depth;
  size_t panels;
  bool accumulate;
};

void VectorTileProduct(const TileProduct<float>& product);
void VectorTileProduct(const TileProduct<double>& product);

// Scales the numbers, and returns the largest, -infinity if there are none. NaNs may be ignored.
float VectorScaledMaximum(float* x, size_t size, float scale);
double VectorScaledMaximum(double* x, size_t size, double scale);

// Replaces the numbers by exp(x - shift), and returns their sum. Results below the normal numbers may be zero.
float VectorExponentials(float* x, size_t size, float shift);
double VectorExponentials(double* x, size_t size, double shift);

// Replaces logits by weights, exp(logit * scale - shift), and the weights' cotangents by those of the logits,
// weight * (cotangent - mean) * scale.
void VectorLogitGradients(float* logits, float* cotangents, size_t size, float scale, float shift, float mean);
void VectorLogitGradients(double* logits, double* cotangents, size_t size, double scale, double shift, double mean);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_VECTOR_ATTENTION_H_
