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

#endif  // JAXLIB_KERNELS_HANDLERS_H_
