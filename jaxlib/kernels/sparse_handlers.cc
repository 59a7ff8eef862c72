// The handlers of the kernels for sparse matrices.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "jaxlib/kernels/coo.h"
#include "jaxlib/kernels/csr.h"
#include "jaxlib/kernels/factors.h"
#include "jaxlib/kernels/handler_support.h"
#include "jaxlib/kernels/handlers.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {
namespace {

bool IsIndex(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::S32 || buffer.element_type() == ffi::S64;
}

// A vector with as many elements as there are in `data`.
bool IsOneForEach(const ffi::AnyBuffer& data, const ffi::AnyBuffer& indices) {
  return data.dimensions().size() == 1 && SameDimensions(data, indices);
}

// The matrix that a product is of, as far as its elements, the dense operand and the result tell.
SparseMatrix CheckedMatrix(const ffi::AnyBuffer& data, const ffi::AnyBuffer& indices,
                           const ffi::AnyBuffer& dense, const ffi::AnyBuffer& product,
                           bool transpose) {
  const std::optional<ElementType> type = ElementTypeOf(data);
  if (!type.has_value() || !IsFactor(*type)) {
    throw InvalidCall("the elements have a type that is not supported: " + ToString(data));
  }
  if (dense.element_type() != data.element_type() ||
      product.element_type() != data.element_type()) {
    throw InvalidCall("operands and result must have one type, got " + ToString(data) + ", " +
                      ToString(dense) + " and " + ToString(product));
  }
  const Dimensions in = dense.dimensions();
  const Dimensions out = product.dimensions();
  const bool vectors = in.size() == 1 && out.size() == 1;
  const bool matrices = in.size() == 2 && out.size() == 2 && in[1] == out[1];
  if ((!vectors && !matrices) || !AreSizes(data.dimensions()) ||
      !AreSizes(indices.dimensions()) || !AreSizes(in) || !AreSizes(out)) {
    throw InvalidCall("with indices " + ToString(indices) + " no product of " + ToString(dense) +
                      " is " + ToString(product));
  }
  return {*type,
          indices.element_type() == ffi::S64,
          static_cast<size_t>(data.dimensions()[0]),
          static_cast<size_t>((transpose ? in : out)[0]),
          static_cast<size_t>((transpose ? out : in)[0]),
          data.untyped_data()};
}

size_t Width(const ffi::AnyBuffer& dense) {
  const Dimensions dimensions = dense.dimensions();
  return Size(dimensions, 1, dimensions.size());
}

void CheckedCsrProduct(ffi::ThreadPool& pool, const ffi::AnyBuffer& data,
                       const ffi::AnyBuffer& indices, const ffi::AnyBuffer& indptr,
                       const ffi::AnyBuffer& dense, ffi::Result<ffi::AnyBuffer>& product,
                       int64_t transpose) {
  if (!IsIndex(indices) || indptr.element_type() != indices.element_type()) {
    throw InvalidCall("indices and indptr must both be S32 or both S64, got " + ToString(indices) +
                      " and " + ToString(indptr));
  }
  if (!IsOneForEach(data, indices) || indptr.dimensions().size() != 1) {
    throw InvalidCall("there must be an index for each element, and a vector indptr, got " +
                      ToString(data) + ", " + ToString(indices) + " and " + ToString(indptr));
  }
  const CsrMatrix matrix{CheckedMatrix(data, indices, dense, *product, transpose != 0),
                         indices.untyped_data(), indptr.untyped_data()};
  if (!AreSizes(indptr.dimensions()) ||
      static_cast<size_t>(indptr.dimensions()[0]) != matrix.num_rows + 1) {
    throw InvalidCall("indptr must have an element more than the matrix has rows, " +
                      std::to_string(matrix.num_rows) + ", got " + ToString(indptr));
  }
  PoolRunner runner(pool);
  CsrProduct(runner, matrix, transpose != 0, dense.untyped_data(), Width(dense),
             product->untyped_data());
}

void CheckedBcooProduct(ffi::ThreadPool& pool, const ffi::AnyBuffer& data,
                        const ffi::AnyBuffer& indices, const ffi::AnyBuffer& dense,
                        ffi::Result<ffi::AnyBuffer>& product, int64_t transpose) {
  const Dimensions pairs = indices.dimensions();
  if (!IsIndex(indices) || data.dimensions().size() != 1 || pairs.size() != 2 ||
      pairs[0] != data.dimensions()[0] || pairs[1] != 2) {
    throw InvalidCall("there must be two indices of S32 or S64 for each element, got " +
                      ToString(data) + " and " + ToString(indices));
  }
  const CooMatrix matrix{CheckedMatrix(data, indices, dense, *product, transpose != 0),
                         CooFormat::kBcoo, indices.untyped_data(), nullptr};
  PoolRunner runner(pool);
  CooProduct(runner, matrix, transpose != 0, dense.untyped_data(), Width(dense),
             product->untyped_data());
}

void CheckedCooProduct(ffi::ThreadPool& pool, const ffi::AnyBuffer& data,
                       const ffi::AnyBuffer& rows, const ffi::AnyBuffer& columns,
                       const ffi::AnyBuffer& dense, ffi::Result<ffi::AnyBuffer>& product,
                       int64_t transpose) {
  if (!IsIndex(rows) || !SameType(rows, columns) || !IsOneForEach(data, rows)) {
    throw InvalidCall("there must be a row and a column for each element, both S32 or both S64, got " +
                      ToString(data) + ", " + ToString(rows) + " and " + ToString(columns));
  }
  const CooMatrix matrix{CheckedMatrix(data, rows, dense, *product, transpose != 0),
                         CooFormat::kCoo, rows.untyped_data(), columns.untyped_data()};
  PoolRunner runner(pool);
  CooProduct(runner, matrix, transpose != 0, dense.untyped_data(), Width(dense),
             product->untyped_data());
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtCsrProduct,
                              jaxlib_ext::Guarded("csr_product", jaxlib_ext::CheckedCsrProduct),
                              jaxlib_ext::Bind<4>().Attr<int64_t>("transpose"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtBcooProduct,
                              jaxlib_ext::Guarded("bcoo_product", jaxlib_ext::CheckedBcooProduct),
                              jaxlib_ext::Bind<3>().Attr<int64_t>("transpose"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtCooProduct,
                              jaxlib_ext::Guarded("coo_product", jaxlib_ext::CheckedCooProduct),
                              jaxlib_ext::Bind<4>().Attr<int64_t>("transpose"));
