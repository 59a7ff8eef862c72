// Attention and its gradient, by tiles: the logits are never in memory as a whole.

#ifndef JAXLIB_KERNELS_ATTENTION_H_
#define JAXLIB_KERNELS_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/parallel.h"

namespace jaxlib_ext {

// Which logits count. Others are as if they were kMaskedLogit: where none of a query's count, it attends to all keys
// alike.
struct AttentionMask {
  bool causal = false;    // a query attends only to keys up to its own position
  bool windowed = false;  // and from `before` positions before its own to `after` behind it
  int64_t before = 0;
  int64_t after = 0;
  const int32_t* query_lengths = nullptr;  // of each sequence, or null; the attention of later queries is zero
  const int32_t* key_lengths = nullptr;    // of each sequence, or null
  // Which logits count: that of a sequence, head, query and key, by the strides, the last of which is 0 or 1. Or null.
  const uint8_t* allowed = nullptr;
  size_t strides[4] = {};
};

inline constexpr double kMaskedLogit = -0.7 * 3.4028234663852886e38;

// Arrays are of shape (batch, length, heads, size), or (batch, heads, length, size) if heads are first, and none is
// empty. The number of heads is a multiple of that of keys' and values'.
struct AttentionShape {
  ElementType type;  // kBfloat16, kFloat32 or kFloat64
  size_t batch;
  size_t queries;
  size_t keys;
  size_t heads;
  size_t key_heads;
  size_t size;
  bool heads_first;
  double scale;  // of the logits
};

// Bfloat16 is computed as float. `log_sums` are the logarithms of the sums of the logits' exponentials, float or
// double of shape (batch, heads, queries). Throws std::bad_alloc.
void Attention(TaskRunner& runner, const AttentionShape& shape, const AttentionMask& mask, const void* query,
               const void* key, const void* value, void* out, void* log_sums);

struct AttentionGradients {
  void* query;
  void* key;
  void* value;
};

// `out` and `log_sums` are those of the attention, `cotangent` is the first one's. Throws std::bad_alloc.
void AttentionGradient(TaskRunner& runner, const AttentionShape& shape, const AttentionMask& mask, const void* query,
                       const void* key, const void* value, const void* out, const void* log_sums,
                       const void* cotangent, const AttentionGradients& gradients);

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_ATTENTION_H_
