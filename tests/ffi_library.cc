// Native functions for ffi_test.py: typed handlers of XLA's foreign function interface.

#include <cmath>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// Divides each row (the last dimension) by its root mean square. Counts its calls in `rms_norm_calls`.
extern "C" {
int64_t rms_norm_calls = 0;
}

static ffi::Error RmsNormImpl(float eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  rms_norm_calls += 1;
  auto dims = x.dimensions();
  if (dims.size() == 0) {
    return ffi::Error::InvalidArgument("rms_norm: the operand must have a dimension");
  }
  const int64_t width = dims.back();
  const float* in = x.typed_data();
  float* out = y->typed_data();
  for (int64_t start = 0; start < static_cast<int64_t>(x.element_count()); start += width) {
    float sum = 0.0f;
    for (int64_t i = start; i < start + width; ++i) sum += in[i] * in[i];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
    for (int64_t i = start; i < start + width; ++i) out[i] = in[i] * scale;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNorm, RmsNormImpl,
                              ffi::Ffi::Bind()
                                  .Attr<float>("eps")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// The sum and the difference of two arrays, in memory column by column where it is a matrix.
static ffi::Error SumAndDifferenceImpl(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y,
                                       ffi::ResultBuffer<ffi::F32> sum,
                                       ffi::ResultBuffer<ffi::F32> difference) {
  if (x.element_count() != y.element_count()) {
    return ffi::Error::InvalidArgument("sum_and_difference: operands of one size");
  }
  for (size_t i = 0; i < x.element_count(); ++i) {
    const float a = x.typed_data()[i];
    const float b = y.typed_data()[i];
    sum->typed_data()[i] = a + b;
    difference->typed_data()[i] = a - b;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(SumAndDifference, SumAndDifferenceImpl,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// The elements as they lie in memory, to see the layout that was asked for.
static ffi::Error InMemoryImpl(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    InMemory, InMemoryImpl,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// The words of arrays that represent elements of extended dtypes.
static ffi::Error CopyWordsImpl(ffi::Buffer<ffi::U32> x, ffi::ResultBuffer<ffi::U32> y) {
  if (x.element_count() != y->element_count()) {
    return ffi::Error::InvalidArgument("copy_words: operand and result of one size");
  }
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    CopyWords, CopyWordsImpl,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::U32>>());
