// The handler of operations on elements.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "jaxlib/kernels/elementwise.h"
#include "jaxlib/kernels/handler_support.h"
#include "jaxlib/kernels/handlers.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {
namespace {

constexpr size_t kNumbersOfStep = 3;

struct Steps {
  std::array<ElementwiseStep, kMaxElementwiseSteps> steps;
  size_t count;
};

Steps StepsOf(ffi::Span<const int64_t> numbers, size_t operands) {
  Steps out{{}, numbers.size() / kNumbersOfStep};
  if (out.count == 0 || out.count > kMaxElementwiseSteps || numbers.size() % kNumbersOfStep != 0) {
    throw InvalidCall("steps must be three numbers for each of 1 to " + std::to_string(kMaxElementwiseSteps) +
                      " operations, got " + std::to_string(numbers.size()));
  }
  for (size_t i = 0; i < out.count; ++i) {
    const int64_t* step = numbers.begin() + kNumbersOfStep * i;
    const size_t values = operands + i;
    if (step[0] < 0 || step[0] > static_cast<int64_t>(ElementwiseOperation::kSquareRoot)) {
      throw InvalidCall("there is no operation " + std::to_string(step[0]));
    }
    for (size_t j = 1; j < kNumbersOfStep; ++j) {
      if (step[j] < 0 || static_cast<size_t>(step[j]) >= values) {
        throw InvalidCall("step " + std::to_string(i) + " must take one of the " + std::to_string(values) +
                          " values before it, got " + std::to_string(step[j]));
      }
    }
    out.steps[i] = {static_cast<ElementwiseOperation>(step[0]), static_cast<size_t>(step[1]),
                    static_cast<size_t>(step[2])};
  }
  return out;
}

void CheckedElementwise(ffi::RemainingArgs& args, ffi::Result<ffi::AnyBuffer>& out,
                        ffi::Span<const int64_t> steps) {
  const std::optional<ElementType> type = ElementTypeOf(*out);
  const bool floats = type == ElementType::kFloat32 || type == ElementType::kFloat64;
  if (!floats || !AreSizes(out->dimensions())) {
    throw InvalidCall("the result must be an array of F32 or F64, got " + ToString(*out));
  }
  if (args.size() == 0 || args.size() > kMaxElementwiseOperands) {
    throw InvalidCall("there must be 1 to " + std::to_string(kMaxElementwiseOperands) + " operands, got " +
                      std::to_string(args.size()));
  }
  std::array<ElementwiseOperand, kMaxElementwiseOperands> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    const ffi::ErrorOr<ffi::AnyBuffer> operand = args.get<ffi::AnyBuffer>(i);
    if (operand.has_error()) throw InvalidCall(operand.error().message());
    const bool scalar = operand->dimensions().size() == 0;
    if (operand->element_type() != out->element_type() || !(scalar || SameDimensions(*operand, *out))) {
      throw InvalidCall("operand " + std::to_string(i) + " must be a scalar or an array like the result, " +
                        ToString(*out) + ", got " + ToString(*operand));
    }
    operands[i] = {operand->untyped_data(), scalar};
  }
  const Steps checked = StepsOf(steps, args.size());
  Elementwise(*type, std::span(operands.data(), args.size()), std::span(checked.steps.data(), checked.count),
              Size(out->dimensions(), 0, out->dimensions().size()), out->untyped_data());
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtElementwise,
                              jaxlib_ext::Guarded("elementwise", jaxlib_ext::CheckedElementwise),
                              jaxlib_ext::ffi::Ffi::Bind()
                                  .RemainingArgs()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Attr<jaxlib_ext::ffi::Span<const int64_t>>("steps"));
