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

// What is wrong with the types of elements; empty if nothing is.
std::string WrongTypes(const ffi::AnyBuffer& data, const ffi::AnyBuffer& dense,
                       const ffi::AnyBuffer& product) {
  const std::optional<ElementType> type = ElementTypeOf(data);
  if (!type.has_value() || !IsFactor(*type)) {
    return "the elements have a type that is not supported: " + ToString(data);
  }
  if (dense.element_type() != data.element_type() ||
      product.element_type() != data.element_type()) {
    return "operands and result must have one type, got " + ToString(data) + ", " +
           ToString(dense) + " and " + ToString(product);
  }
  return "";
}

// Whether a matrix can map vectors, or as many columns of matrices, of one shape to the other.
bool FitEachOther(const Dimensions& in, const Dimensions& out) {
  return (in.size() == 1 || in.size() == 2) && out.size() == in.size() &&
         (in.size() == 1 || in[1] == out[1]);
}

ffi::Error CheckedCsrProduct(ffi::ThreadPool& pool, ffi::AnyBuffer& data, ffi::AnyBuffer& indices,
                             ffi::AnyBuffer& indptr, ffi::AnyBuffer& dense,
                             ffi::Result<ffi::AnyBuffer>& product, int64_t transpose) {
  const auto invalid = [](const std::string& what) {
    return ffi::Error::InvalidArgument("csr_product: " + what);
  };
  if (const std::string wrong = WrongTypes(data, dense, *product); !wrong.empty()) {
    return invalid(wrong);
  }
  const bool wide = indices.element_type() == ffi::S64;
  if ((!wide && indices.element_type() != ffi::S32) ||
      indptr.element_type() != indices.element_type()) {
    return invalid("indices and indptr must both be S32 or both S64, got " + ToString(indices) +
                   " and " + ToString(indptr));
  }
  if (data.dimensions().size() != 1 || !SameDimensions(data, indices) ||
      indptr.dimensions().size() != 1 || indptr.dimensions()[0] < 1) {
    return invalid("elements and indices must be of one size, and indptr not empty, got " +
                   ToString(data) + ", " + ToString(indices) + " and " + ToString(indptr));
  }
  const Dimensions in = dense.dimensions();
  const Dimensions out = product->dimensions();
  if (!AreSizes(data.dimensions()) || !AreSizes(indptr.dimensions()) || !AreSizes(in) ||
      !AreSizes(out)) {
    return invalid("no arrays have the shapes " + ToString(data) + ", " + ToString(indptr) + ", " +
                   ToString(dense) + " and " + ToString(*product));
  }
  const int64_t rows = indptr.dimensions()[0] - 1;
  if (!FitEachOther(in, out) || (transpose ? in : out)[0] != rows) {
    return invalid("for " + std::to_string(rows) + " rows no product of " + ToString(dense) +
                   " is " + ToString(*product));
  }
  const CsrMatrix matrix{*ElementTypeOf(data),
                         wide,
                         static_cast<size_t>(data.dimensions()[0]),
                         static_cast<size_t>(rows),
                         static_cast<size_t>((transpose ? out : in)[0]),
                         data.untyped_data(),
                         indices.untyped_data(),
                         indptr.untyped_data()};
  PoolRunner runner(pool);
  CsrProduct(runner, matrix, transpose != 0, dense.untyped_data(), Size(in, 1, in.size()),
             product->untyped_data());
  return ffi::Error::Success();
}

ffi::Error CsrProductImpl(ffi::ThreadPool pool, ffi::AnyBuffer data, ffi::AnyBuffer indices,
                          ffi::AnyBuffer indptr, ffi::AnyBuffer dense,
                          ffi::Result<ffi::AnyBuffer> product, int64_t transpose) {
  return Guard("csr_product", [&] {
    return CheckedCsrProduct(pool, data, indices, indptr, dense, product, transpose);
  });
}

ffi::Error CheckedCooProduct(ffi::ThreadPool& pool, ffi::AnyBuffer& data, ffi::AnyBuffer& indices,
                             ffi::AnyBuffer& dense, ffi::Result<ffi::AnyBuffer>& product,
                             int64_t transpose) {
  const auto invalid = [](const std::string& what) {
    return ffi::Error::InvalidArgument("coo_product: " + what);
  };
  if (const std::string wrong = WrongTypes(data, dense, *product); !wrong.empty()) {
    return invalid(wrong);
  }
  const bool wide = indices.element_type() == ffi::S64;
  const Dimensions pairs = indices.dimensions();
  if ((!wide && indices.element_type() != ffi::S32) || data.dimensions().size() != 1 ||
      pairs.size() != 2 || pairs[0] != data.dimensions()[0] || pairs[1] != 2) {
    return invalid("there must be two indices of S32 or S64 for each element, got " +
                   ToString(data) + " and " + ToString(indices));
  }
  const Dimensions in = dense.dimensions();
  const Dimensions out = product->dimensions();
  if (!AreSizes(data.dimensions()) || !AreSizes(pairs) || !AreSizes(in) || !AreSizes(out) ||
      !FitEachOther(in, out)) {
    return invalid("no product of " + ToString(indices) + " and " + ToString(dense) + " is " +
                   ToString(*product));
  }
  const CooMatrix matrix{*ElementTypeOf(data),
                         wide,
                         static_cast<size_t>(data.dimensions()[0]),
                         static_cast<size_t>((transpose ? in : out)[0]),
                         static_cast<size_t>((transpose ? out : in)[0]),
                         data.untyped_data(),
                         indices.untyped_data()};
  PoolRunner runner(pool);
  CooProduct(runner, matrix, transpose != 0, dense.untyped_data(), Size(in, 1, in.size()),
             product->untyped_data());
  return ffi::Error::Success();
}

ffi::Error CooProductImpl(ffi::ThreadPool pool, ffi::AnyBuffer data, ffi::AnyBuffer indices,
                          ffi::AnyBuffer dense, ffi::Result<ffi::AnyBuffer> product,
                          int64_t transpose) {
  return Guard("coo_product", [&] {
    return CheckedCooProduct(pool, data, indices, dense, product, transpose);
  });
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtCsrProduct, jaxlib_ext::CsrProductImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<int64_t>("transpose"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtCooProduct, jaxlib_ext::CooProductImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Arg<xla::ffi::AnyBuffer>()
                                  .Ret<xla::ffi::AnyBuffer>()
                                  .Attr<int64_t>("transpose"));
