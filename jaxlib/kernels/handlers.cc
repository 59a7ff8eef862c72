#include "jaxlib/kernels/handlers.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/handler_support.h"
#include "jaxlib/kernels/lanes.h"
#include "jaxlib/kernels/sort.h"
#include "jaxlib/kernels/top_k.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {

std::optional<ElementType> ElementTypeOf(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return ElementType::kBool;
    case XLA_FFI_DataType_S8:
      return ElementType::kInt8;
    case XLA_FFI_DataType_S16:
      return ElementType::kInt16;
    case XLA_FFI_DataType_S32:
      return ElementType::kInt32;
    case XLA_FFI_DataType_S64:
      return ElementType::kInt64;
    case XLA_FFI_DataType_U8:
      return ElementType::kUint8;
    case XLA_FFI_DataType_U16:
      return ElementType::kUint16;
    case XLA_FFI_DataType_U32:
      return ElementType::kUint32;
    case XLA_FFI_DataType_U64:
      return ElementType::kUint64;
    case XLA_FFI_DataType_F16:
      return ElementType::kFloat16;
    case XLA_FFI_DataType_BF16:
      return ElementType::kBfloat16;
    case XLA_FFI_DataType_F32:
      return ElementType::kFloat32;
    case XLA_FFI_DataType_F64:
      return ElementType::kFloat64;
    case XLA_FFI_DataType_C64:
      return ElementType::kComplex64;
    case XLA_FFI_DataType_C128:
      return ElementType::kComplex128;
    case XLA_FFI_DataType_F8E3M4:
      return ElementType::kFloat8E3M4;
    case XLA_FFI_DataType_F8E4M3:
      return ElementType::kFloat8E4M3;
    case XLA_FFI_DataType_F8E4M3FN:
      return ElementType::kFloat8E4M3Fn;
    case XLA_FFI_DataType_F8E4M3B11FNUZ:
      return ElementType::kFloat8E4M3B11Fnuz;
    case XLA_FFI_DataType_F8E4M3FNUZ:
      return ElementType::kFloat8E4M3Fnuz;
    case XLA_FFI_DataType_F8E5M2:
      return ElementType::kFloat8E5M2;
    case XLA_FFI_DataType_F8E5M2FNUZ:
      return ElementType::kFloat8E5M2Fnuz;
    case XLA_FFI_DataType_F8E8M0FNU:
      return ElementType::kFloat8E8M0Fnu;
    default:
      return std::nullopt;
  }
}

namespace {

template <typename T>
T Decoded(const ffi::ErrorOr<T>& value) {
  if (value.has_error()) throw InvalidCall(value.error().message());
  return *value;
}

void CheckedSort(ffi::ThreadPool& pool, ffi::RemainingArgs& args, ffi::RemainingRets& results,
                 int64_t dimension, int64_t num_keys) {
  if (args.size() == 0) throw InvalidCall("there must be an operand");
  if (args.size() != results.size()) {
    throw InvalidCall("there must be as many results as operands, got " +
                      std::to_string(args.size()) + " operands and " +
                      std::to_string(results.size()) + " results");
  }
  if (num_keys < 1 || static_cast<size_t>(num_keys) > args.size()) {
    throw InvalidCall("num_keys must be between 1 and the number of operands, " +
                      std::to_string(args.size()) + ", got " + std::to_string(num_keys));
  }
  const auto first = Decoded(args.get<ffi::AnyBuffer>(0));
  const Dimensions dimensions = first.dimensions();
  if (dimension < 0 || static_cast<size_t>(dimension) >= dimensions.size()) {
    throw InvalidCall("dimension must be one of the " + std::to_string(dimensions.size()) +
                      " of the operands, got " + std::to_string(dimension));
  }
  if (!AreSizes(dimensions)) throw InvalidCall("no array has the shape " + ToString(first));
  const auto axis = static_cast<size_t>(dimension);
  const LaneShape shape{Size(dimensions, 0, axis), static_cast<size_t>(dimensions[axis]),
                        Size(dimensions, axis + 1, dimensions.size())};
  if (shape.size > kMaxSortSize) {
    throw InvalidCall("at most " + std::to_string(kMaxSortSize) + " elements can be sorted, got " +
                      std::to_string(shape.size));
  }
  std::vector<SortOperand> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto in = Decoded(args.get<ffi::AnyBuffer>(i));
    auto out = Decoded(results.get<ffi::AnyBuffer>(i));
    const std::string number = std::to_string(i);
    if (!SameDimensions(in, first)) {
      throw InvalidCall("operands must have one shape, but operand 0 is " + ToString(first) +
                        " and operand " + number + " is " + ToString(in));
    }
    if (!SameType(in, *out)) {
      throw InvalidCall("operand " + number + " is " + ToString(in) + ", but result " + number +
                        " is " + ToString(*out));
    }
    const std::optional<ElementType> type = ElementTypeOf(in);
    if (!type.has_value()) {
      throw InvalidCall("operand " + number + " has a type that is not supported: " + ToString(in));
    }
    operands.push_back({*type, in.untyped_data(), out->untyped_data()});
  }
  PoolRunner runner(pool);
  Sort(runner, shape, operands, static_cast<size_t>(num_keys));
}

void CheckedTopK(ffi::ThreadPool& pool, const ffi::AnyBuffer& operand,
                 ffi::Result<ffi::AnyBuffer>& values, ffi::Result<ffi::AnyBuffer>& indices) {
  const Dimensions dimensions = operand.dimensions();
  const Dimensions result = values->dimensions();
  if (dimensions.size() == 0) throw InvalidCall("the operand must have a dimension");
  const std::optional<ElementType> type = ElementTypeOf(operand);
  if (!type.has_value() || IsComplex(*type)) {
    throw InvalidCall("the operand has a type that is not supported: " + ToString(operand));
  }
  if (values->element_type() != operand.element_type() || indices->element_type() != ffi::S32 ||
      !SameDimensions(*values, *indices)) {
    throw InvalidCall("for an operand " + ToString(operand) +
                      " the results must be of its type and S32, and of one shape, got " +
                      ToString(*values) + " and " + ToString(*indices));
  }
  const size_t last = dimensions.size() - 1;
  if (!AreSizes(dimensions) || !AreSizes(result)) {
    throw InvalidCall("no arrays have the shapes " + ToString(operand) + " and " + ToString(*values));
  }
  bool fits = result.size() == dimensions.size() && result[last] <= dimensions[last];
  for (size_t i = 0; fits && i < last; ++i) fits = result[i] == dimensions[i];
  if (!fits) {
    throw InvalidCall("the results must have the shape of the operand but for a smaller last dimension, got " +
                      ToString(operand) + " and " + ToString(*values));
  }
  const auto size = static_cast<size_t>(dimensions[last]);
  if (size > kMaxTopKSize) {
    throw InvalidCall("the last dimension must have at most " + std::to_string(kMaxTopKSize) +
                      " elements, got " + std::to_string(size));
  }
  PoolRunner runner(pool);
  TopK(runner, *type, operand.untyped_data(), Size(dimensions, 0, last), size,
       static_cast<size_t>(result[last]), values->untyped_data(),
       static_cast<int32_t*>(indices->untyped_data()));
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtSort, jaxlib_ext::Guarded("sort", jaxlib_ext::CheckedSort),
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<int64_t>("dimension")
                                  .Attr<int64_t>("num_keys"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtTopK,
                              jaxlib_ext::Guarded("top_k", jaxlib_ext::CheckedTopK),
                              jaxlib_ext::Bind<1>().Ret<xla::ffi::AnyBuffer>());
