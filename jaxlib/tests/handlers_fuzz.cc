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
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/handlers.h"
#include "jaxlib/tests/fake_xla.h"

namespace jaxlib_ext {
namespace {

constexpr size_t kMaxDimensions = 3;
constexpr size_t kMaxOperands = 4;
constexpr size_t kMaxElements = 1 << 12;
// Few arrays are so large that threads share their work.
constexpr size_t kMaxLarge = 300000;

using Bytes = std::vector<uint8_t>;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return size_ == 0 ? 0 : data_[next_++ % size_]; }
  size_t Below(size_t limit) { return Byte() % limit; }
  // Not of zero, as which an input that is too short reads.
  bool Rarely() { return Below(32) == 9; }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t next_ = 0;
};

// Every type that XLA has. Handlers do not take those in the last line.
constexpr XLA_FFI_DataType kTypes[] = {
    XLA_FFI_DataType_PRED,          XLA_FFI_DataType_S8,         XLA_FFI_DataType_S16,
    XLA_FFI_DataType_S32,           XLA_FFI_DataType_S64,        XLA_FFI_DataType_U8,
    XLA_FFI_DataType_U16,           XLA_FFI_DataType_U32,        XLA_FFI_DataType_U64,
    XLA_FFI_DataType_F16,           XLA_FFI_DataType_BF16,       XLA_FFI_DataType_F32,
    XLA_FFI_DataType_F64,           XLA_FFI_DataType_C64,        XLA_FFI_DataType_C128,
    XLA_FFI_DataType_F8E3M4,        XLA_FFI_DataType_F8E4M3,     XLA_FFI_DataType_F8E4M3FN,
    XLA_FFI_DataType_F8E4M3B11FNUZ, XLA_FFI_DataType_F8E5M2,     XLA_FFI_DataType_F8E5M2FNUZ,
    XLA_FFI_DataType_F8E4M3FNUZ,    XLA_FFI_DataType_F8E8M0FNU,
    // those
    XLA_FFI_DataType_INVALID,       XLA_FFI_DataType_S1,         XLA_FFI_DataType_S2,
    XLA_FFI_DataType_S4,            XLA_FFI_DataType_U1,         XLA_FFI_DataType_U2,
    XLA_FFI_DataType_U4,            XLA_FFI_DataType_TOKEN,      XLA_FFI_DataType_F4E2M1FN,
};
constexpr size_t kTaken = 23;

XLA_FFI_DataType DrawType(Input& input) {
  return kTypes[input.Below(input.Rarely() ? std::size(kTypes) : kTaken)];
}

size_t Elements(const std::vector<int64_t>& shape) {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return elements;
}

std::vector<int64_t> DrawShape(Input& input) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 17, 64, 70, 130, 2000};
  constexpr int64_t kLarge[] = {1, 2, 40000, 70000, 140000, 280000};
  const bool large = input.Below(8) == 5;
  std::vector<int64_t> shape(input.Below(kMaxDimensions + 1));
  size_t elements = 1;
  for (int64_t& size : shape) {
    size = large ? kLarge[input.Below(std::size(kLarge))] : kSizes[input.Below(std::size(kSizes))];
    if (elements * static_cast<size_t>(size) > (large ? kMaxLarge : kMaxElements)) size = 1;
    elements *= static_cast<size_t>(size);
  }
  return shape;
}

// As large as the array is, so that sanitizers see what is beyond.
Bytes Memory(XLA_FFI_DataType type, const std::vector<int64_t>& shape) {
  const std::optional<ElementType> known = ElementTypeOf(type);
  return Bytes(known.has_value() ? SizeOf(*known) * Elements(shape) : 0);
}

// What the input has, over and over, or numbers that are spread evenly.
Bytes DrawElements(Input& input, XLA_FFI_DataType type, const std::vector<int64_t>& shape) {
  Bytes memory = Memory(type, shape);
  if (input.Below(2) == 0) {
    for (uint8_t& byte : memory) byte = input.Byte();
  } else {
    std::minstd_rand random(input.Byte() + 1u);
    for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random() >> 8);
  }
  if (type == XLA_FFI_DataType_PRED) {
    for (uint8_t& byte : memory) byte &= 1;
  }
  return memory;
}

void Check(bool holds) {
  if (!holds) std::abort();
}

struct Array {
  XLA_FFI_DataType type;
  std::vector<int64_t> shape;
  Bytes memory;
};

// The keys of all numbers in order of memory: an element has one, or two if it is complex.
template <bool total>
std::vector<uint64_t> Keys(const Array& array) {
  return VisitOrder(*ElementTypeOf(array.type), [&](auto order) {
    using Word = typename decltype(order)::Word;
    std::vector<uint64_t> keys(array.memory.size() / sizeof(Word));
    for (size_t i = 0; i < keys.size(); ++i) {
      Word bits;
      std::memcpy(&bits, array.memory.data() + i * sizeof(Word), sizeof(Word));
      keys[i] = total ? order.ToTotalKey(bits) : order.ToKey(bits);
    }
    return keys;
  });
}

// The results are what std::stable_sort makes of the operands.
void CheckSorted(const std::vector<Array>& operands, const std::vector<Array>& results,
                 size_t dimension, size_t num_keys) {
  const std::vector<int64_t>& shape = operands[0].shape;
  const size_t elements = Elements(shape);
  if (elements == 0) return;
  std::vector<std::vector<uint64_t>> keys;
  for (size_t i = 0; i < num_keys; ++i) keys.push_back(Keys<false>(operands[i]));
  const auto before = [&](size_t x, size_t y) {
    for (const std::vector<uint64_t>& of : keys) {
      const size_t words = of.size() / elements;
      for (size_t word = 0; word < words; ++word) {
        const uint64_t a = of[x * words + word];
        const uint64_t b = of[y * words + word];
        if (a != b) return a < b;
      }
    }
    return false;
  };
  const auto size = static_cast<size_t>(shape[dimension]);
  const size_t stride = Elements({shape.begin() + static_cast<int64_t>(dimension) + 1, shape.end()});
  std::vector<size_t> lane(size);
  for (size_t start = 0; start < elements; ++start) {
    if (start / stride % size != 0) continue;
    for (size_t i = 0; i < size; ++i) lane[i] = start + i * stride;
    std::stable_sort(lane.begin(), lane.end(), before);
    for (size_t operand = 0; operand < operands.size(); ++operand) {
      const size_t bytes = operands[operand].memory.size() / elements;
      const uint8_t* in = operands[operand].memory.data();
      const uint8_t* out = results[operand].memory.data();
      for (size_t i = 0; i < size; ++i) {
        Check(std::memcmp(in + lane[i] * bytes, out + (start + i * stride) * bytes, bytes) == 0);
      }
    }
  }
}

void FuzzSort(Input& input) {
  const std::vector<int64_t> shape = DrawShape(input);
  const size_t num_operands = input.Rarely() ? 0 : 1 + input.Below(kMaxOperands);
  const size_t num_results = input.Rarely() ? input.Below(kMaxOperands + 1) : num_operands;
  std::vector<Array> operands;
  std::vector<Array> results;
  for (size_t i = 0; i < num_operands; ++i) {
    const std::vector<int64_t> own = input.Rarely() ? DrawShape(input) : shape;
    const XLA_FFI_DataType type = DrawType(input);
    operands.push_back({type, own, DrawElements(input, type, own)});
  }
  for (size_t i = 0; i < num_results; ++i) {
    const std::vector<int64_t> own = input.Rarely() ? DrawShape(input) : shape;
    const bool same = i < num_operands && !input.Rarely();
    const XLA_FFI_DataType type = same ? operands[i].type : DrawType(input);
    results.push_back({type, own, Memory(type, own)});
  }
  const size_t axes = std::max<size_t>(shape.size(), 1);
  const auto wild = [&](size_t limit) { return static_cast<int64_t>(input.Below(limit + 3)) - 1; };
  const int64_t dimension =
      input.Rarely() ? wild(axes) : static_cast<int64_t>(input.Below(axes));
  const int64_t num_keys = input.Rarely() || num_operands == 0
                               ? wild(num_operands)
                               : static_cast<int64_t>(1 + input.Below(num_operands));
  FakeCall call;
  for (Array& operand : operands) call.AddOperand(operand.type, operand.shape, operand.memory.data());
  for (Array& result : results) call.AddResult(result.type, result.shape, result.memory.data());
  call.AddAttribute("dimension", dimension);
  call.AddAttribute("num_keys", num_keys);
  if (call.Run(JaxlibExtSort, static_cast<int64_t>(input.Below(4))).has_value()) return;
  CheckSorted(operands, results, static_cast<size_t>(dimension), static_cast<size_t>(num_keys));
}

// The results are the first of what std::stable_sort makes of the rows.
void CheckTopK(const Array& operand, const Array& values, const Array& indices) {
  const auto size = static_cast<size_t>(operand.shape.back());
  const auto k = static_cast<size_t>(values.shape.back());
  const size_t elements = Elements(operand.shape);
  if (elements == 0 || k == 0) return;
  const std::vector<uint64_t> keys = Keys<true>(operand);
  const size_t bytes = operand.memory.size() / elements;
  std::vector<size_t> row(size);
  for (size_t start = 0; start < elements; start += size) {
    std::iota(row.begin(), row.end(), 0);
    std::stable_sort(row.begin(), row.end(),
                     [&](size_t i, size_t j) { return keys[start + i] > keys[start + j]; });
    for (size_t i = 0; i < k; ++i) {
      const size_t place = start / size * k + i;
      int32_t index;
      std::memcpy(&index, indices.memory.data() + place * sizeof(index), sizeof(index));
      Check(index == static_cast<int32_t>(row[i]));
      Check(std::memcmp(operand.memory.data() + (start + row[i]) * bytes,
                        values.memory.data() + place * bytes, bytes) == 0);
    }
  }
}

void FuzzTopK(Input& input) {
  const std::vector<int64_t> shape = DrawShape(input);
  std::vector<int64_t> smaller = shape;
  if (!smaller.empty()) smaller.back() = static_cast<int64_t>(input.Byte()) * shape.back() / 250;
  if (input.Rarely()) smaller = DrawShape(input);
  const XLA_FFI_DataType type = DrawType(input);
  const XLA_FFI_DataType value_type = input.Rarely() ? DrawType(input) : type;
  const XLA_FFI_DataType index_type = input.Rarely() ? DrawType(input) : XLA_FFI_DataType_S32;
  Array operand = {type, shape, DrawElements(input, type, shape)};
  Array values = {value_type, smaller, Memory(value_type, smaller)};
  Array indices = {index_type, smaller, Memory(index_type, smaller)};
  FakeCall call;
  call.AddOperand(type, shape, operand.memory.data());
  call.AddResult(value_type, smaller, values.memory.data());
  call.AddResult(index_type, smaller, indices.memory.data());
  if (call.Run(JaxlibExtTopK, static_cast<int64_t>(input.Below(4))).has_value()) return;
  CheckTopK(operand, values, indices);
}

// The kernels of numerical functions, with every operand and result drawn on its own at times: what they
// compute is compared in numeric_kernels_test.cc.

Array DrawArray(Input& input, XLA_FFI_DataType type, const std::vector<int64_t>& shape) {
  const XLA_FFI_DataType own_type = input.Rarely() ? DrawType(input) : type;
  const std::vector<int64_t> own_shape = input.Rarely() ? DrawShape(input) : shape;
  return {own_type, own_shape, DrawElements(input, own_type, own_shape)};
}

void RunNumeric(Input& input, XLA_FFI_Handler* handler, std::vector<Array> operands, Array result,
                const std::vector<const char*>& attributes) {
  FakeCall call;
  for (Array& x : operands) call.AddOperand(x.type, x.shape, x.memory.data());
  call.AddResult(result.type, result.shape, result.memory.data());
  for (const char* name : attributes) {
    call.AddAttribute(name, static_cast<int64_t>(input.Below(5)) - (input.Rarely() ? 1 : 0));
  }
  call.Run(handler, static_cast<int64_t>(input.Below(4)));
}

void FuzzElementwise(Input& input) {
  const XLA_FFI_DataType types[] = {XLA_FFI_DataType_F32, XLA_FFI_DataType_F64};
  const XLA_FFI_DataType type = types[input.Below(2)];
  const std::vector<int64_t> shape = DrawShape(input);
  std::vector<Array> operands(input.Below(4) + (input.Rarely() ? input.Below(9) : 1));
  for (Array& x : operands) x = DrawArray(input, type, input.Below(3) == 2 ? std::vector<int64_t>{} : shape);
  Array result = DrawArray(input, type, shape);
  FakeCall call;
  for (Array& x : operands) call.AddOperand(x.type, x.shape, x.memory.data());
  call.AddResult(result.type, result.shape, result.memory.data());
  std::vector<int64_t> steps;
  const size_t count = input.Rarely() ? input.Below(12) : 1 + input.Below(3);
  for (size_t i = 0; i < count; ++i) {
    const size_t values = operands.size() + i;
    steps.push_back(static_cast<int64_t>(input.Below(9)) - (input.Rarely() ? 1 : 0));
    for (int j = 0; j < 2; ++j) {
      steps.push_back(static_cast<int64_t>(input.Below(values + 1)) - (input.Rarely() ? 0 : 1));
    }
  }
  if (input.Rarely()) steps.push_back(0);
  call.AddAttribute("steps", steps);
  call.Run(JaxlibExtElementwise, static_cast<int64_t>(input.Below(4)));
}

void FuzzAttention(Input& input) {
  constexpr XLA_FFI_DataType kFloats[] = {XLA_FFI_DataType_BF16, XLA_FFI_DataType_F32, XLA_FFI_DataType_F64};
  const XLA_FFI_DataType type = kFloats[input.Below(3)];
  const XLA_FFI_DataType sums = type == XLA_FFI_DataType_F64 ? type : XLA_FFI_DataType_F32;
  const auto size = [&](size_t most) { return static_cast<int64_t>(input.Below(most) + (input.Rarely() ? 0 : 1)); };
  const int64_t batch = size(3);
  const int64_t queries = size(120);
  const int64_t keys = input.Below(4) == 3 ? 2 * size(150) : size(30);
  const int64_t key_heads = size(2);
  const int64_t heads = key_heads * size(2);
  const int64_t width = size(20);
  const bool heads_first = input.Below(2) == 1;
  const auto shape = [&](int64_t length, int64_t of) {
    return heads_first ? std::vector<int64_t>{batch, of, length, width} : std::vector<int64_t>{batch, length, of, width};
  };
  const std::vector<int64_t> of_query = shape(queries, heads);
  const std::vector<int64_t> of_key = shape(keys, key_heads);
  const std::vector<int64_t> of_sums = {batch, heads, queries};
  std::vector<int64_t> options = {heads_first};
  for (int i = 0; i < 2; ++i) options.push_back(static_cast<int64_t>(input.Below(2)));
  for (int i = 0; i < 2; ++i) {
    const int64_t far = input.Below(2) == 1 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
    options.push_back(input.Rarely() ? far : static_cast<int64_t>(input.Byte()) - 100);
  }
  for (int i = 0; i < 3; ++i) options.push_back(static_cast<int64_t>(input.Below(2)));

  std::vector<Array> operands = {DrawArray(input, type, of_query), DrawArray(input, type, of_key),
                                 DrawArray(input, type, of_key)};
  for (size_t i = 5; i < 7; ++i) {
    if (options[i] != 0) operands.push_back(DrawArray(input, XLA_FFI_DataType_S32, {batch}));
  }
  if (options[7] != 0) {
    std::vector<int64_t> mask = {batch, heads, queries, keys};
    for (int64_t& n : mask) n = input.Below(2) == 1 ? 1 : n;
    operands.push_back(DrawArray(input, XLA_FFI_DataType_PRED, mask));
  }
  std::vector<Array> results;
  const bool gradient = input.Below(2) == 1;
  if (gradient) {
    operands.push_back(DrawArray(input, type, of_query));
    operands.push_back(DrawArray(input, sums, of_sums));
    operands.push_back(DrawArray(input, type, of_query));
    results = {DrawArray(input, type, of_query), DrawArray(input, type, of_key), DrawArray(input, type, of_key)};
  } else {
    results = {DrawArray(input, type, of_query), DrawArray(input, sums, of_sums)};
  }
  if (input.Rarely()) operands.pop_back();
  if (input.Rarely()) options.pop_back();
  FakeCall call;
  for (Array& x : operands) call.AddOperand(x.type, x.shape, x.memory.data());
  for (Array& x : results) call.AddResult(x.type, x.shape, x.memory.data());
  call.AddAttribute("options", options);
  call.AddRealAttribute("scale", static_cast<double>(input.Byte()) / 100 - 1);
  call.Run(gradient ? JaxlibExtAttentionGradient : JaxlibExtAttention, static_cast<int64_t>(input.Below(4)));
}

void FuzzNumeric(Input& input) {
  const size_t kernel = input.Below(8);
  const XLA_FFI_DataType type = DrawType(input);
  const std::vector<int64_t> shape = DrawShape(input);
  const auto draw = [&](XLA_FFI_DataType of, const std::vector<int64_t>& as) {
    return DrawArray(input, of, as);
  };
  const auto size = [&] { return static_cast<int64_t>(input.Byte()); };
  if (kernel == 0) {
    RunNumeric(input, JaxlibExtCumulative, {draw(type, shape)}, draw(type, shape),
               {"operation", "dimension", "reverse"});
  } else if (kernel == 1) {
    const int64_t keys = size();
    RunNumeric(input, JaxlibExtThreefryBits, {draw(XLA_FFI_DataType_U32, {keys, 2})},
               draw(type, {keys, size()}), {});
  } else if (kernel == 2) {
    RunNumeric(input, JaxlibExtSearchSorted, {draw(type, {size()}), draw(type, shape)},
               draw(XLA_FFI_DataType_S32, shape), {"right"});
  } else if (kernel == 3) {
    const XLA_FFI_DataType mostly = input.Rarely() ? type : XLA_FFI_DataType_F32;
    RunNumeric(input, JaxlibExtErfInv, {draw(mostly, shape)}, draw(mostly, shape), {});
  } else if (kernel == 4) {
    const XLA_FFI_DataType mostly = input.Rarely() ? type : XLA_FFI_DataType_F32;
    const int64_t count = size();
    const int64_t rows = input.Rarely() ? size() % 5 : 3;
    RunNumeric(input, JaxlibExtDeterminants3x3, {draw(mostly, {count, rows, 3})}, draw(mostly, {count}), {});
  } else if (kernel == 5) {
    FuzzElementwise(input);
  } else if (kernel == 6) {
    FuzzAttention(input);
  } else {
    const int64_t rows = size();
    const int64_t updates = input.Below(8) == 5 ? 20000 : size();
    const int64_t width = size() % 9;
    const std::vector<int64_t> operand = {rows, width};
    const bool scalar = input.Below(3) == 2;
    RunNumeric(input, JaxlibExtScatterAdd,
               {draw(type, operand), draw(DrawType(input), {updates}),
                draw(type, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{updates, width})},
               draw(type, operand), {"clip"});
  }
}

template <typename T>
T Get(const Array& array, size_t i) {
  T value;
  std::memcpy(&value, array.memory.data() + i * sizeof(T), sizeof(T));
  return value;
}

// The sizes of a product.
struct ProductShapes {
  explicit ProductShapes(Input& input)
      : transpose(input.Below(2) == 1),
        rows(DrawSize(input)),
        columns(DrawSize(input)),
        elements(input.Below(8) == 5 ? 40000 : DrawSize(input)),
        in({transpose ? rows : columns}),
        out({transpose ? columns : rows}) {
    if (input.Below(2) == 1) {
      in.push_back(input.Below(12));
      out.push_back(in[1]);
    }
    if (input.Rarely()) out = DrawShape(input);
  }

  static int64_t DrawSize(Input& input) {
    constexpr int64_t kSizes[] = {0, 1, 2, 3, 10, 100, 700};
    return kSizes[input.Below(std::size(kSizes))];
  }

  const bool transpose;
  const int64_t rows;
  const int64_t columns;
  const int64_t elements;
  std::vector<int64_t> in;
  std::vector<int64_t> out;
};

// Whether the call succeeds.
bool Multiply(Input& input, XLA_FFI_Handler* handler, const std::vector<Array*>& operands,
              Array& product, bool transpose) {
  FakeCall call;
  for (Array* operand : operands) {
    call.AddOperand(operand->type, operand->shape, operand->memory.data());
  }
  call.AddResult(product.type, product.shape, product.memory.data());
  call.AddAttribute("transpose", transpose);
  return !call.Run(handler, static_cast<int64_t>(input.Below(4))).has_value();
}

// Integers, since rounding differs: those in the rows' ranges, one by one.
template <typename Index>
void CheckCsrProduct(const Array& data, const Array& indices, const Array& indptr,
                     const Array& dense, const Array& product, bool transpose) {
  const size_t rows = Elements(indptr.shape) - 1;
  const size_t elements = Elements(data.shape);
  const auto at = [&](size_t row) { return static_cast<size_t>(Get<Index>(indptr, row)); };
  bool fits = at(0) == 0 && at(rows) == elements;
  for (size_t row = 0; row < rows; ++row) fits = fits && at(row) <= at(row + 1);
  const auto columns = static_cast<size_t>((transpose ? product : dense).shape[0]);
  for (size_t i = 0; i < elements; ++i) {
    fits = fits && static_cast<size_t>(Get<Index>(indices, i)) < columns;
  }
  if (!fits) return;
  const size_t width = dense.shape.size() == 1 ? 1 : static_cast<size_t>(dense.shape[1]);
  std::vector<uint32_t> expected(Elements(product.shape));
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = at(row); i < at(row + 1); ++i) {
      const auto column = static_cast<size_t>(Get<Index>(indices, i));
      const size_t from = (transpose ? row : column) * width;
      const size_t to = (transpose ? column : row) * width;
      for (size_t j = 0; j < width; ++j) {
        expected[to + j] += Get<uint32_t>(data, i) * Get<uint32_t>(dense, from + j);
      }
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) Check(expected[i] == Get<uint32_t>(product, i));
}

void FuzzCsrProduct(Input& input) {
  auto [transpose, rows, columns, elements, in, out] = ProductShapes(input);
  if (input.Rarely()) in = DrawShape(input);
  const XLA_FFI_DataType type = input.Below(2) == 0 ? XLA_FFI_DataType_S32 : DrawType(input);
  const XLA_FFI_DataType index =
      input.Rarely() ? DrawType(input)
                     : (input.Below(2) == 0 ? XLA_FFI_DataType_S32 : XLA_FFI_DataType_S64);
  const auto array = [&](XLA_FFI_DataType of, std::vector<int64_t> shape) {
    return Array{of, shape, DrawElements(input, of, shape)};
  };
  Array data = array(type, {elements});
  Array indices = array(index, input.Rarely() ? DrawShape(input) : std::vector<int64_t>{elements});
  Array indptr = array(index, input.Rarely() ? DrawShape(input) : std::vector<int64_t>{rows + 1});
  Array dense = array(input.Rarely() ? DrawType(input) : type, in);
  Array product = {type, out, Memory(type, out)};
  // Most indices that are drawn do not fit.
  const bool valid = input.Below(4) != 3;
  const auto fit = [&](auto zero) {
    using Index = decltype(zero);
    const auto set = [](Array& to, size_t i, uint64_t value) {
      const auto fitting = static_cast<Index>(value);
      std::memcpy(to.memory.data() + i * sizeof(Index), &fitting, sizeof(Index));
    };
    for (size_t i = 0; i < Elements(indices.shape) && columns > 0; ++i) {
      set(indices, i, static_cast<uint64_t>(Get<Index>(indices, i)) % static_cast<uint64_t>(columns));
    }
    std::vector<uint64_t> starts(Elements(indptr.shape));
    for (size_t i = 0; i < starts.size(); ++i) {
      starts[i] = static_cast<uint64_t>(Get<Index>(indptr, i)) % static_cast<uint64_t>(elements + 1);
    }
    if (starts.empty()) return;
    starts.back() = static_cast<uint64_t>(elements);
    std::sort(starts.begin(), starts.end());
    starts[0] = 0;
    for (size_t i = 0; i < starts.size(); ++i) set(indptr, i, starts[i]);
  };
  if (valid && index == XLA_FFI_DataType_S32) fit(int32_t{});
  if (valid && index == XLA_FFI_DataType_S64) fit(int64_t{});
  if (!Multiply(input, JaxlibExtCsrProduct, {&data, &indices, &indptr, &dense}, product, transpose)) {
    return;
  }
  if (type != XLA_FFI_DataType_S32) return;
  if (index == XLA_FFI_DataType_S32) {
    CheckCsrProduct<int32_t>(data, indices, indptr, dense, product, transpose);
  } else {
    CheckCsrProduct<int64_t>(data, indices, indptr, dense, product, transpose);
  }
}

// The indices along a dimension, of which there are `stride` in turns.
struct Places {
  const Array* indices;
  size_t stride;
  size_t offset;

  // Of an element, along a dimension of this size.
  int64_t At(size_t i, int64_t size) const {
    const size_t at = i * stride + offset;
    const int64_t index = indices->type == XLA_FFI_DataType_S64
                              ? Get<int64_t>(*indices, at)
                              : static_cast<int64_t>(Get<int32_t>(*indices, at));
    return index < 0 ? index + size : index;
  }
};

// Integers, one by one; out of bounds nothing is written, and either the end is read or zeros are.
void CheckCooProduct(const Array& data, const Places& to_places, const Places& from_places,
                     const Array& dense, const Array& product, bool clamped) {
  const size_t width = dense.shape.size() == 1 ? 1 : static_cast<size_t>(dense.shape[1]);
  std::vector<uint32_t> expected(Elements(product.shape));
  for (size_t i = 0; i < Elements(data.shape) && dense.shape[0] > 0; ++i) {
    const int64_t to = to_places.At(i, product.shape[0]);
    int64_t from = from_places.At(i, dense.shape[0]);
    if (clamped) from = std::clamp<int64_t>(from, 0, dense.shape[0] - 1);
    if (to < 0 || to >= product.shape[0] || from < 0 || from >= dense.shape[0]) continue;
    for (size_t j = 0; j < width; ++j) {
      expected[static_cast<size_t>(to) * width + j] +=
          Get<uint32_t>(data, i) * Get<uint32_t>(dense, static_cast<size_t>(from) * width + j);
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) Check(expected[i] == Get<uint32_t>(product, i));
}

// Makes most indices lie near those that there are, in order of rows for some inputs. `rows` and `columns` are of one
// array if both are in it.
template <typename Index>
void FitPairs(Array& rows, Array& columns, int64_t num_rows, int64_t num_columns, bool in_order) {
  const size_t stride = &rows == &columns ? 2 : 1;
  std::vector<std::pair<Index, Index>> pairs(rows.memory.size() / (stride * sizeof(Index)));
  const auto fitting = [](Index index, int64_t size) {
    const auto limit = static_cast<uint64_t>(size) + 3;
    return static_cast<Index>(static_cast<int64_t>(static_cast<uint64_t>(index) % limit) - 1);
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {fitting(Get<Index>(rows, stride * i), num_rows),
                fitting(Get<Index>(columns, stride * i + stride - 1), num_columns)};
    if (in_order) pairs[i].first = std::max<Index>(pairs[i].first, 0);
  }
  if (in_order) std::sort(pairs.begin(), pairs.end());
  const auto set = [](Array& to, size_t i, Index value) {
    std::memcpy(to.memory.data() + i * sizeof(Index), &value, sizeof(Index));
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    set(rows, stride * i, pairs[i].first);
    set(columns, stride * i + stride - 1, pairs[i].second);
  }
}

// Rows and columns as pairs, and each by themselves.
void FuzzCooProduct(Input& input) {
  const bool pairs = input.Below(2) == 1;
  const auto [transpose, num_rows, num_columns, elements, in, out] = ProductShapes(input);
  const XLA_FFI_DataType type = input.Below(2) == 0 ? XLA_FFI_DataType_S32 : DrawType(input);
  const XLA_FFI_DataType index =
      input.Below(2) == 1 ? XLA_FFI_DataType_S64 : XLA_FFI_DataType_S32;
  Array data = DrawArray(input, type, {elements});
  Array rows = DrawArray(input, index, pairs ? std::vector<int64_t>{elements, 2} : data.shape);
  Array own_columns = DrawArray(input, index, pairs ? std::vector<int64_t>{0} : data.shape);
  Array& columns = pairs ? rows : own_columns;
  Array dense = DrawArray(input, type, in);
  Array product = {type, out, Memory(type, out)};
  // Most indices that are drawn do not fit.
  if (input.Below(4) != 3 && rows.type == columns.type && rows.shape == columns.shape) {
    const bool in_order = input.Below(2) == 1;
    const auto fit = [&](auto zero) {
      FitPairs<decltype(zero)>(rows, columns, num_rows, num_columns, in_order);
    };
    if (rows.type == XLA_FFI_DataType_S32) fit(int32_t{});
    if (rows.type == XLA_FFI_DataType_S64) fit(int64_t{});
  }
  const bool done =
      pairs ? Multiply(input, JaxlibExtBcooProduct, {&data, &rows, &dense}, product, transpose)
            : Multiply(input, JaxlibExtCooProduct, {&data, &rows, &columns, &dense}, product, transpose);
  if (!done || type != XLA_FFI_DataType_S32) return;
  Places to = {&rows, size_t{pairs ? 2u : 1u}, 0};
  Places from = {&columns, to.stride, to.stride - 1};
  if (transpose) std::swap(to, from);
  CheckCooProduct(data, to, from, dense, product, !pairs);
}

}  // namespace
}  // namespace jaxlib_ext

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  jaxlib_ext::Input input(data, size);
  switch (input.Byte() % 5) {
    case 0:
      jaxlib_ext::FuzzSort(input);
      break;
    case 1:
      jaxlib_ext::FuzzTopK(input);
      break;
    case 2:
      jaxlib_ext::FuzzNumeric(input);
      break;
    case 3:
      jaxlib_ext::FuzzCsrProduct(input);
      break;
    default:
      jaxlib_ext::FuzzCooProduct(input);
  }
  return 0;
}
