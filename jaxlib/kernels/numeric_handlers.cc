// The handlers of the kernels for numerical functions.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "jaxlib/kernels/cumulative.h"
#include "jaxlib/kernels/determinants.h"
#include "jaxlib/kernels/erf_inv.h"
#include "jaxlib/kernels/handler_support.h"
#include "jaxlib/kernels/handlers.h"
#include "jaxlib/kernels/lanes.h"
#include "jaxlib/kernels/numbers.h"
#include "jaxlib/kernels/random_bits.h"
#include "jaxlib/kernels/scatter_add.h"
#include "jaxlib/kernels/search_sorted.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {
namespace {

bool IsInteger(ElementType type) {
  return IsNumber(type) && type != ElementType::kFloat32 && type != ElementType::kFloat64;
}

// Of the array, or none if it is no array of numbers.
std::optional<ElementType> NumberTypeOf(const ffi::AnyBuffer& buffer) {
  const std::optional<ElementType> type = ElementTypeOf(buffer);
  return type.has_value() && IsNumber(*type) && AreSizes(buffer.dimensions()) ? type : std::nullopt;
}

size_t Elements(const ffi::AnyBuffer& buffer) {
  return Size(buffer.dimensions(), 0, buffer.dimensions().size());
}

void CheckedCumulative(ffi::ThreadPool& pool, const ffi::AnyBuffer& in,
                       ffi::Result<ffi::AnyBuffer>& out, int64_t operation, int64_t dimension,
                       int64_t reverse) {
  const std::optional<ElementType> type = NumberTypeOf(in);
  if (!type.has_value()) {
    throw InvalidCall("the operand must be an array of integers, F32 or F64, got " + ToString(in));
  }
  if (!SameType(in, *out)) {
    throw InvalidCall("the operand is " + ToString(in) + ", but the result is " + ToString(*out));
  }
  const Dimensions dimensions = in.dimensions();
  if (dimension < 0 || static_cast<size_t>(dimension) >= dimensions.size()) {
    throw InvalidCall("dimension must be one of the " + std::to_string(dimensions.size()) +
                      " of the operand, got " + std::to_string(dimension));
  }
  if (operation < 0 || operation > static_cast<int64_t>(Operation::kMinimum)) {
    throw InvalidCall("operation must be 0, 1, 2 or 3, got " + std::to_string(operation));
  }
  const auto axis = static_cast<size_t>(dimension);
  const LaneShape shape{Size(dimensions, 0, axis), static_cast<size_t>(dimensions[axis]),
                        Size(dimensions, axis + 1, dimensions.size())};
  PoolRunner runner(pool);
  Cumulate(runner, *type, static_cast<Operation>(operation), reverse != 0, shape,
           in.untyped_data(), out->untyped_data());
}

void CheckedThreefryBits(ffi::ThreadPool& pool, const ffi::AnyBuffer& keys,
                         ffi::Result<ffi::AnyBuffer>& bits) {
  const auto got = [&] { return ", got " + ToString(keys) + " and " + ToString(*bits); };
  const Dimensions dimensions = keys.dimensions();
  if (keys.element_type() != ffi::U32 || dimensions.size() == 0 ||
      dimensions[dimensions.size() - 1] != 2 || !AreSizes(dimensions)) {
    throw InvalidCall("the operand must be an array of U32 whose last dimension has two elements" +
                      got());
  }
  const ffi::DataType type = bits->element_type();
  // Of floating-point numbers, the bits are those of their representation.
  const bool floats = type == ffi::F32 || type == ffi::F64;
  if ((!floats && type != ffi::U8 && type != ffi::U16 && type != ffi::U32 && type != ffi::U64) ||
      !AreSizes(bits->dimensions())) {
    throw InvalidCall("the result must be an array of U8, U16, U32, U64, F32 or F64" + got());
  }
  const size_t num_keys = Elements(keys) / 2;
  const size_t size = num_keys == 0 ? 0 : Elements(*bits) / num_keys;
  if (size * num_keys != Elements(*bits)) {
    throw InvalidCall("the result must have the same number of elements for each key" + got());
  }
  PoolRunner runner(pool);
  ThreefryBits(runner, static_cast<const uint32_t*>(keys.untyped_data()), num_keys, size,
               SizeOf(*ElementTypeOf(*bits)), bits->untyped_data());
}

void CheckedScatterAdd(ffi::ThreadPool& pool, const ffi::AnyBuffer& operand,
                       const ffi::AnyBuffer& indices, const ffi::AnyBuffer& updates,
                       ffi::Result<ffi::AnyBuffer>& out, int64_t clip) {
  const std::optional<ElementType> type = NumberTypeOf(operand);
  if (!type.has_value() || operand.dimensions().size() == 0 || NumberTypeOf(updates) != type) {
    throw InvalidCall("the operand and the updates must be arrays of one type, integers, F32 or F64; got " +
                      ToString(operand) + " and " + ToString(updates));
  }
  const std::optional<ElementType> index_type = NumberTypeOf(indices);
  if (!index_type.has_value() || !IsInteger(*index_type) || indices.dimensions().size() != 1) {
    throw InvalidCall("the indices must be a vector of integers, got " + ToString(indices));
  }
  const Dimensions rows = operand.dimensions();
  const bool scalar = updates.dimensions().size() == 0;
  bool fits = scalar || (updates.dimensions().size() == rows.size() &&
                         updates.dimensions()[0] == indices.dimensions()[0]);
  for (size_t i = 1; fits && !scalar && i < rows.size(); ++i) {
    fits = updates.dimensions()[i] == rows[i];
  }
  if (!fits) {
    throw InvalidCall("there must be a row of updates for each index, or a scalar, got " +
                      ToString(operand) + ", " + ToString(indices) + " and " + ToString(updates));
  }
  if (!SameType(operand, *out)) {
    throw InvalidCall("the operand is " + ToString(operand) + ", but the result is " + ToString(*out));
  }
  const size_t bytes = SizeOf(*type) * Elements(operand);
  if (bytes != 0 && out->untyped_data() != operand.untyped_data()) {
    std::memcpy(out->untyped_data(), operand.untyped_data(), bytes);
  }
  const RowUpdates what{.type = *type,
                        .index_type = *index_type,
                        .num_rows = static_cast<size_t>(rows[0]),
                        .width = Size(rows, 1, rows.size()),
                        .num_updates = Elements(indices),
                        .indices = indices.untyped_data(),
                        .updates = updates.untyped_data(),
                        .scalar = scalar,
                        .clip = clip != 0};
  PoolRunner runner(pool);
  ScatterAdd(runner, what, out->untyped_data());
}

void CheckedSearchSorted(ffi::ThreadPool& pool, const ffi::AnyBuffer& sorted,
                         const ffi::AnyBuffer& values, ffi::Result<ffi::AnyBuffer>& places,
                         int64_t right) {
  const std::optional<ElementType> type = NumberTypeOf(sorted);
  if (!type.has_value() || NumberTypeOf(values) != type || sorted.dimensions().size() != 1) {
    throw InvalidCall("the operands must be a vector and an array of one type, integers, F32 or F64; got " +
                      ToString(sorted) + " and " + ToString(values));
  }
  if (places->element_type() != ffi::S32 || !SameDimensions(values, *places)) {
    throw InvalidCall("for " + ToString(values) + " the result must be of S32 and this shape, got " +
                      ToString(*places));
  }
  const size_t size = Elements(sorted);
  if (size > kMaxSearchSize) {
    throw InvalidCall("the vector must have at most " + std::to_string(kMaxSearchSize) +
                      " elements, got " + std::to_string(size));
  }
  PoolRunner runner(pool);
  SearchSorted(runner, *type, right != 0, sorted.untyped_data(), size, values.untyped_data(),
               Elements(values), static_cast<int32_t*>(places->untyped_data()));
}

void CheckedErfInv(ffi::ThreadPool& pool, const ffi::AnyBuffer& in, ffi::Result<ffi::AnyBuffer>& out) {
  if (in.element_type() != ffi::F32 || !SameType(in, *out) || !AreSizes(in.dimensions())) {
    throw InvalidCall("operand and result must be arrays of F32 of one shape, got " + ToString(in) + " and " +
                      ToString(*out));
  }
  PoolRunner runner(pool);
  ErfInv(runner, static_cast<const float*>(in.untyped_data()), Elements(in),
         static_cast<float*>(out->untyped_data()));
}

void CheckedDeterminants3x3(ffi::ThreadPool& pool, const ffi::AnyBuffer& in,
                            ffi::Result<ffi::AnyBuffer>& out) {
  const Dimensions from = in.dimensions();
  const Dimensions to = out->dimensions();
  bool fits = in.element_type() == ffi::F32 && out->element_type() == ffi::F32 && AreSizes(from) &&
              from.size() == to.size() + 2 && from[to.size()] == 3 && from[to.size() + 1] == 3;
  for (size_t i = 0; fits && i < to.size(); ++i) fits = from[i] == to[i];
  if (!fits) {
    throw InvalidCall("the operand must be matrices of F32 with 3 rows and columns, and the result a number for each, got " +
                      ToString(in) + " and " + ToString(*out));
  }
  PoolRunner runner(pool);
  Determinants3x3(runner, static_cast<const float*>(in.untyped_data()), Elements(*out),
                  static_cast<float*>(out->untyped_data()));
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtCumulative,
                              jaxlib_ext::Guarded("cumulative", jaxlib_ext::CheckedCumulative),
                              jaxlib_ext::Bind<1>()
                                  .Attr<int64_t>("operation")
                                  .Attr<int64_t>("dimension")
                                  .Attr<int64_t>("reverse"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtThreefryBits,
                              jaxlib_ext::Guarded("threefry_bits", jaxlib_ext::CheckedThreefryBits),
                              jaxlib_ext::Bind<1>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtScatterAdd,
                              jaxlib_ext::Guarded("scatter_add", jaxlib_ext::CheckedScatterAdd),
                              jaxlib_ext::Bind<3>().Attr<int64_t>("clip"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtSearchSorted,
                              jaxlib_ext::Guarded("search_sorted", jaxlib_ext::CheckedSearchSorted),
                              jaxlib_ext::Bind<2>().Attr<int64_t>("right"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtErfInv,
                              jaxlib_ext::Guarded("erf_inv", jaxlib_ext::CheckedErfInv),
                              jaxlib_ext::Bind<1>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtDeterminants3x3,
                              jaxlib_ext::Guarded("determinants_3x3", jaxlib_ext::CheckedDeterminants3x3),
                              jaxlib_ext::Bind<1>());
