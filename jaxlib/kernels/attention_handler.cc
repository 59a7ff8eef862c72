// The handlers of attention.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "jaxlib/kernels/attention.h"
#include "jaxlib/kernels/handler_support.h"
#include "jaxlib/kernels/handlers.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {
namespace {

using Options = ffi::Span<const int64_t>;

// Places in the attribute `options`.
enum Option : size_t { kHeadsFirst, kCausal, kWindowed, kBefore, kAfter, kHasQueryLengths, kHasKeyLengths, kHasMask };
constexpr size_t kNumOptions = 8;

bool HasShape(const ffi::AnyBuffer& buffer, std::initializer_list<size_t> sizes) {
  const Dimensions dimensions = buffer.dimensions();
  return std::equal(dimensions.begin(), dimensions.end(), sizes.begin(), sizes.end(),
                    [](int64_t a, size_t b) { return a == static_cast<int64_t>(b); });
}

AttentionShape ShapeOf(const ffi::AnyBuffer& query, const ffi::AnyBuffer& key, const ffi::AnyBuffer& value,
                       Options options, double scale) {
  if (options.size() != kNumOptions) {
    throw InvalidCall("options must be " + std::to_string(kNumOptions) + " numbers, got " +
                      std::to_string(options.size()));
  }
  const std::string what = ToString(query) + ", " + ToString(key) + " and " + ToString(value);
  const std::optional<ElementType> type = ElementTypeOf(query);
  if (type != ElementType::kBfloat16 && type != ElementType::kFloat32 && type != ElementType::kFloat64) {
    throw InvalidCall("queries must be of BF16, F32 or F64, got " + what);
  }
  const bool heads_first = options[kHeadsFirst] != 0;
  const Dimensions of_query = query.dimensions();
  const Dimensions of_key = key.dimensions();
  const auto is_array = [](const Dimensions& sizes) {
    return sizes.size() == 4 && AreSizes(sizes) && std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n > 0; });
  };
  const size_t length = heads_first ? 2 : 1;
  const size_t heads = 3 - length;
  if (!is_array(of_query) || !is_array(of_key) || !SameType(key, value) || key.element_type() != query.element_type() ||
      of_key[0] != of_query[0] || of_key[3] != of_query[3] || of_query[heads] % of_key[heads] != 0) {
    throw InvalidCall(
        "queries, keys and values must be of one type and four dimensions, none of them empty, the number of heads of"
        " queries a multiple of that of keys, got " +
        what);
  }
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  return {.type = *type,
          .batch = size(of_query[0]),
          .queries = size(of_query[length]),
          .keys = size(of_key[length]),
          .heads = size(of_query[heads]),
          .key_heads = size(of_key[heads]),
          .size = size(of_query[3]),
          .heads_first = heads_first,
          .scale = scale};
}

ffi::AnyBuffer Operand(ffi::RemainingArgs& args, size_t i) {
  const ffi::ErrorOr<ffi::AnyBuffer> operand = args.get<ffi::AnyBuffer>(i);
  if (operand.has_error()) throw InvalidCall(operand.error().message());
  return *operand;
}

const int32_t* Lengths(const ffi::AnyBuffer& lengths, const AttentionShape& shape) {
  if (lengths.element_type() != ffi::S32 || !HasShape(lengths, {shape.batch})) {
    throw InvalidCall("lengths must be of S32 and one for each sequence, got " + ToString(lengths));
  }
  return static_cast<const int32_t*>(lengths.untyped_data());
}

// From the operands that follow queries, keys and values, before `others`.
AttentionMask MaskOf(ffi::RemainingArgs& args, size_t others, const AttentionShape& shape, Options options) {
  AttentionMask mask = {.causal = options[kCausal] != 0,
                        .windowed = options[kWindowed] != 0,
                        .before = options[kBefore],
                        .after = options[kAfter]};
  const size_t count =
      (options[kHasQueryLengths] != 0) + (options[kHasKeyLengths] != 0) + (options[kHasMask] != 0) + others;
  if (args.size() != count) {
    throw InvalidCall("there must be " + std::to_string(3 + count) + " operands, got " + std::to_string(3 + args.size()));
  }
  size_t next = 0;
  if (options[kHasQueryLengths] != 0) mask.query_lengths = Lengths(Operand(args, next++), shape);
  if (options[kHasKeyLengths] != 0) mask.key_lengths = Lengths(Operand(args, next++), shape);
  if (options[kHasMask] != 0) {
    const ffi::AnyBuffer allowed = Operand(args, next);
    const Dimensions sizes = allowed.dimensions();
    const size_t most[] = {shape.batch, shape.heads, shape.queries, shape.keys};
    bool fits = allowed.element_type() == ffi::PRED && sizes.size() == 4;
    size_t stride = 1;
    for (size_t i = 4; fits && i-- > 0;) {
      fits = sizes[i] == 1 || sizes[i] == static_cast<int64_t>(most[i]);
      mask.strides[i] = sizes[i] == 1 ? 0 : stride;
      stride *= static_cast<size_t>(sizes[i]);
    }
    if (!fits) {
      throw InvalidCall("the mask must be of PRED and broadcast to sequences, heads, queries and keys, got " +
                        ToString(allowed));
    }
    mask.allowed = static_cast<const uint8_t*>(allowed.untyped_data());
  }
  return mask;
}

void CheckSums(const ffi::AnyBuffer& sums, const AttentionShape& shape) {
  const ffi::DataType type = shape.type == ElementType::kFloat64 ? ffi::F64 : ffi::F32;
  if (sums.element_type() != type || !HasShape(sums, {shape.batch, shape.heads, shape.queries})) {
    throw InvalidCall("the logarithms of sums must be one for each query, of F64 with queries of F64 and else F32, got " +
                      ToString(sums));
  }
}

void CheckSame(const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  if (!SameType(a, b)) throw InvalidCall(ToString(b) + " must be like " + ToString(a));
}

void CheckedAttention(ffi::ThreadPool& pool, const ffi::AnyBuffer& query, const ffi::AnyBuffer& key,
                      const ffi::AnyBuffer& value, ffi::RemainingArgs& args, ffi::Result<ffi::AnyBuffer>& out,
                      ffi::Result<ffi::AnyBuffer>& log_sums, Options options, double scale) {
  const AttentionShape shape = ShapeOf(query, key, value, options, scale);
  const AttentionMask mask = MaskOf(args, 0, shape, options);
  CheckSame(query, *out);
  CheckSums(*log_sums, shape);
  PoolRunner runner(pool);
  Attention(runner, shape, mask, query.untyped_data(), key.untyped_data(), value.untyped_data(), out->untyped_data(),
            log_sums->untyped_data());
}

void CheckedAttentionGradient(ffi::ThreadPool& pool, const ffi::AnyBuffer& query, const ffi::AnyBuffer& key,
                              const ffi::AnyBuffer& value, ffi::RemainingArgs& args,
                              ffi::Result<ffi::AnyBuffer>& query_gradient, ffi::Result<ffi::AnyBuffer>& key_gradient,
                              ffi::Result<ffi::AnyBuffer>& value_gradient, Options options, double scale) {
  const AttentionShape shape = ShapeOf(query, key, value, options, scale);
  constexpr size_t kOthers = 3;
  const AttentionMask mask = MaskOf(args, kOthers, shape, options);
  const size_t first = args.size() - kOthers;
  const ffi::AnyBuffer out = Operand(args, first);
  const ffi::AnyBuffer log_sums = Operand(args, first + 1);
  const ffi::AnyBuffer cotangent = Operand(args, first + 2);
  CheckSame(query, out);
  CheckSums(log_sums, shape);
  CheckSame(query, cotangent);
  CheckSame(query, *query_gradient);
  CheckSame(key, *key_gradient);
  CheckSame(value, *value_gradient);
  PoolRunner runner(pool);
  AttentionGradient(runner, shape, mask, query.untyped_data(), key.untyped_data(), value.untyped_data(),
                    out.untyped_data(), log_sums.untyped_data(), cotangent.untyped_data(),
                    {query_gradient->untyped_data(), key_gradient->untyped_data(), value_gradient->untyped_data()});
}

}  // namespace
}  // namespace jaxlib_ext

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtAttention,
                              jaxlib_ext::Guarded("attention", jaxlib_ext::CheckedAttention),
                              jaxlib_ext::BindOperands<3>()
                                  .RemainingArgs()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Attr<jaxlib_ext::ffi::Span<const int64_t>>("options")
                                  .Attr<double>("scale"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(JaxlibExtAttentionGradient,
                              jaxlib_ext::Guarded("attention_gradient", jaxlib_ext::CheckedAttentionGradient),
                              jaxlib_ext::BindOperands<3>()
                                  .RemainingArgs()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Ret<jaxlib_ext::ffi::AnyBuffer>()
                                  .Attr<jaxlib_ext::ffi::Span<const int64_t>>("options")
                                  .Attr<double>("scale"));
