// The kernels as handlers of XLA's foreign function interface, for its CPU backend.

#ifndef JAXLIB_KERNELS_HANDLERS_H_
#define JAXLIB_KERNELS_HANDLERS_H_

#include <optional>

#include "jaxlib/kernels/element_type.h"
#include "xla/ffi/api/c_api.h"

namespace jaxlib_ext {

// None if there are no kernels for it.
std::optional<ElementType> ElementTypeOf(XLA_FFI_DataType type);

}  // namespace jaxlib_ext

// The handlers check what they are called with: a call that does not fit gets an error of class
// InvalidArgument.

// Sorts any number of arrays of one shape. Attributes: `dimension` along which (int64), `num_keys` (int64).
extern "C" XLA_FFI_Error* JaxlibExtSort(XLA_FFI_CallFrame* call_frame);

// The `k` largest elements along the last dimension, and their indices as int32. `k` is the size of the last
// dimension of the results.
extern "C" XLA_FFI_Error* JaxlibExtTopK(XLA_FFI_CallFrame* call_frame);

// Partial sums (`operation` 0), products (1), maxima (2) or minima (3) of integers, float32 or float64.
// Attributes, all int64: `operation`, `dimension` along which, `reverse` (0 or 1).
extern "C" XLA_FFI_Error* JaxlibExtCumulative(XLA_FFI_CallFrame* call_frame);

// Operand: keys, U32, whose last dimension has two elements; the result has unsigned elements, and the same number
// of them for each key.
extern "C" XLA_FFI_Error* JaxlibExtThreefryBits(XLA_FFI_CallFrame* call_frame);

// Operands: an array of rows, a vector of indices, and as many rows or a scalar. The result is the first with those
// added. Attribute: `clip` (int64), not zero if an index out of bounds means the first or the last row, not none.
extern "C" XLA_FFI_Error* JaxlibExtScatterAdd(XLA_FFI_CallFrame* call_frame);

// The places in a sorted vector, the first operand, of the elements of the second, as int32. Attribute: `right` (int64),
// not zero for the places after equal elements.
extern "C" XLA_FFI_Error* JaxlibExtSearchSorted(XLA_FFI_CallFrame* call_frame);

// The inverse of the error function, of F32.
extern "C" XLA_FFI_Error* JaxlibExtErfInv(XLA_FFI_CallFrame* call_frame);

// Operations on the elements of arrays of F32 or F64, of one shape, and scalars. Attribute: `steps` (an array of int64),
// three numbers for each: an ElementwiseOperation, and two of the values before it, which are the operands and the
// results of earlier steps. The result is that of the last.
extern "C" XLA_FFI_Error* JaxlibExtElementwise(XLA_FFI_CallFrame* call_frame);

// Determinants of matrices of 3 rows and columns, of F32.
extern "C" XLA_FFI_Error* JaxlibExtDeterminants3x3(XLA_FFI_CallFrame* call_frame);

// Attention, see attention.h. Operands: queries, keys, values, then the lengths of queries, those of keys, and a mask
// that broadcasts to (batch, heads, queries, keys), as far as `options` say. Results: the attention, and the logarithms
// of the sums of the logits' exponentials, of shape (batch, heads, queries) and F64 with queries of F64, else F32.
// Attributes: `options` (eight int64), whether heads are before lengths, it is causal, there is a window, its
// positions before and after a query's own, whether there are lengths of queries, of keys, and a mask; `scale` (F64).
extern "C" XLA_FFI_Error* JaxlibExtAttention(XLA_FFI_CallFrame* call_frame);

// Its gradients by queries, keys and values. Operands and attributes are the same; then follow both results, and the
// cotangent of the first.
extern "C" XLA_FFI_Error* JaxlibExtAttentionGradient(XLA_FFI_CallFrame* call_frame);

// The product of a sparse matrix in CSR format, given by elements, column indices and starts of rows, and a
// dense vector or matrix. Attribute: `transpose` (int64), not zero to transpose the sparse matrix.
extern "C" XLA_FFI_Error* JaxlibExtCsrProduct(XLA_FFI_CallFrame* call_frame);

// The same for elements with coordinates: operands are elements, rows, columns, and the dense vector or matrix.
extern "C" XLA_FFI_Error* JaxlibExtCooProduct(XLA_FFI_CallFrame* call_frame);

// The same with rows and columns in an array of pairs. Out of bounds, zeros are read.
extern "C" XLA_FFI_Error* JaxlibExtBcooProduct(XLA_FFI_CallFrame* call_frame);

#endif  // JAXLIB_KERNELS_HANDLERS_H_
