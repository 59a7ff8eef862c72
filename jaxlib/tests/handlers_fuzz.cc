// Calls the handlers with what a fuzzer makes up: they must return an error, or the right result.
//
// The first bytes of an input choose the call: which handler, types, shapes and attributes. The others are the
// elements, over and over.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "jaxlib/kernels/handlers.h"
#include "jaxlib/tests/fake_xla.h"

namespace jaxlib_ext {
namespace {

constexpr size_t kMaxDimensions = 3;
constexpr size_t kMaxOperands = 4;
constexpr size_t kMaxElements = 1 << 12;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return size_ == 0 ? 0 : data_[next_++ % size_]; }
  size_t Below(size_t limit) { return Byte() % limit; }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t next_ = 0;
};

// Every type that XLA has, among them those that handlers do not take.
XLA_FFI_DataType DrawType(Input& input) {
  constexpr XLA_FFI_DataType kTypes[] = {
      XLA_FFI_DataType_INVALID,       XLA_FFI_DataType_PRED,         XLA_FFI_DataType_S1,
      XLA_FFI_DataType_S2,            XLA_FFI_DataType_S4,           XLA_FFI_DataType_S8,
      XLA_FFI_DataType_S16,           XLA_FFI_DataType_S32,          XLA_FFI_DataType_S64,
      XLA_FFI_DataType_U1,            XLA_FFI_DataType_U2,           XLA_FFI_DataType_U4,
      XLA_FFI_DataType_U8,            XLA_FFI_DataType_U16,          XLA_FFI_DataType_U32,
      XLA_FFI_DataType_U64,           XLA_FFI_DataType_F16,          XLA_FFI_DataType_F32,
      XLA_FFI_DataType_F64,           XLA_FFI_DataType_BF16,         XLA_FFI_DataType_C64,
      XLA_FFI_DataType_C128,          XLA_FFI_DataType_TOKEN,        XLA_FFI_DataType_F8E5M2,
      XLA_FFI_DataType_F8E3M4,        XLA_FFI_DataType_F8E4M3,       XLA_FFI_DataType_F8E4M3FN,
      XLA_FFI_DataType_F8E4M3B11FNUZ, XLA_FFI_DataType_F8E5M2FNUZ,   XLA_FFI_DataType_F8E4M3FNUZ,
      XLA_FFI_DataType_F4E2M1FN,      XLA_FFI_DataType_F8E8M0FNU,
  };
  return kTypes[input.Below(std::size(kTypes))];
}

std::vector<int64_t> DrawShape(Input& input) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 17, 64, 70, 130, 2000};
  std::vector<int64_t> shape(input.Below(kMaxDimensions + 1));
  size_t elements = 1;
  for (int64_t& size : shape) {
    size = kSizes[input.Below(std::size(kSizes))];
    if (elements * static_cast<size_t>(size) > kMaxElements) size = 1;
    elements *= static_cast<size_t>(size);
  }
  return shape;
}

// As large as the array is, so that sanitizers see what is beyond; 16 bytes an element are enough for each type.
std::vector<uint8_t> Memory(const std::vector<int64_t>& shape) {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return std::vector<uint8_t>(16 * elements);
}

void Check(bool holds) {
  if (!holds) std::abort();
}

// The handlers that take numbers: what is sorted has the elements of the operand.
template <typename T>
void CheckSorted(std::vector<uint8_t> in, std::vector<uint8_t> out, size_t count) {
  std::vector<T> x(count);
  std::vector<T> y(count);
  std::memcpy(x.data(), in.data(), count * sizeof(T));
  std::memcpy(y.data(), out.data(), count * sizeof(T));
  std::sort(x.begin(), x.end());
  Check(x == y);
}

void FuzzSort(Input& input) {
  const std::vector<int64_t> shape = DrawShape(input);
  const size_t num_operands = input.Below(kMaxOperands + 1);
  const size_t num_results = input.Below(8) == 0 ? input.Below(kMaxOperands + 1) : num_operands;
  std::vector<XLA_FFI_DataType> types;
  std::vector<std::vector<uint8_t>> operands;
  std::vector<std::vector<uint8_t>> results;
  FakeCall call;
  for (size_t i = 0; i < num_operands; ++i) {
    const std::vector<int64_t> own = input.Below(16) == 0 ? DrawShape(input) : shape;
    types.push_back(DrawType(input));
    operands.push_back(Memory(own));
    for (uint8_t& byte : operands.back()) byte = input.Byte();
    call.AddOperand(types.back(), own, operands.back().data());
  }
  for (size_t i = 0; i < num_results; ++i) {
    const bool same = i < num_operands && input.Below(16) != 0;
    const std::vector<int64_t> own = input.Below(16) == 0 ? DrawShape(input) : shape;
    results.push_back(Memory(own));
    call.AddResult(same ? types[i] : DrawType(input), own, results.back().data());
  }
  const auto dimension = static_cast<int64_t>(input.Below(kMaxDimensions + 2)) - 1;
  const auto num_keys = static_cast<int64_t>(input.Below(kMaxOperands + 2)) - 1;
  call.AddAttribute("dimension", dimension);
  call.AddAttribute("num_keys", num_keys);
  const bool failed = call.Run(JaxlibExtSort, static_cast<int64_t>(input.Below(4))).has_value();
  if (!failed && num_operands == 1 && shape.size() == 1) {
    const auto count = static_cast<size_t>(shape[0]);
    if (types[0] == XLA_FFI_DataType_U32) CheckSorted<uint32_t>(operands[0], results[0], count);
    if (types[0] == XLA_FFI_DataType_S64) CheckSorted<int64_t>(operands[0], results[0], count);
    if (types[0] == XLA_FFI_DataType_S8) CheckSorted<int8_t>(operands[0], results[0], count);
  }
}

void FuzzTopK(Input& input) {
  const std::vector<int64_t> shape = DrawShape(input);
  std::vector<int64_t> smaller = shape;
  if (!smaller.empty()) smaller.back() = static_cast<int64_t>(input.Byte()) * shape.back() / 250;
  if (input.Below(16) == 0) smaller = DrawShape(input);
  const XLA_FFI_DataType type = DrawType(input);
  const XLA_FFI_DataType value_type = input.Below(16) == 0 ? DrawType(input) : type;
  const XLA_FFI_DataType index_type = input.Below(16) == 0 ? DrawType(input) : XLA_FFI_DataType_S32;
  std::vector<uint8_t> operand = Memory(shape);
  for (uint8_t& byte : operand) byte = input.Byte();
  std::vector<uint8_t> values = Memory(smaller);
  std::vector<uint8_t> indices = Memory(smaller);
  FakeCall call;
  call.AddOperand(type, shape, operand.data());
  call.AddResult(value_type, smaller, values.data());
  call.AddResult(index_type, smaller, indices.data());
  if (call.Run(JaxlibExtTopK, static_cast<int64_t>(input.Below(4))).has_value()) return;
  const size_t count = indices.size() / 16;
  for (size_t i = 0; i < count; ++i) {
    int32_t index;
    std::memcpy(&index, indices.data() + i * sizeof(index), sizeof(index));
    Check(0 <= index && index < shape.back());
  }
}

}  // namespace
}  // namespace jaxlib_ext

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  jaxlib_ext::Input input(data, size);
  if (input.Byte() % 2 == 0) {
    jaxlib_ext::FuzzSort(input);
  } else {
    jaxlib_ext::FuzzTopK(input);
  }
  return 0;
}
