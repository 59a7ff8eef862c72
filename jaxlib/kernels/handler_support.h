// What handlers share: checks of buffers, and XLA's pool of threads as a runner of tasks.

#ifndef JAXLIB_KERNELS_HANDLER_SUPPORT_H_
#define JAXLIB_KERNELS_HANDLER_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "jaxlib/kernels/element_type.h"
#include "jaxlib/kernels/handlers.h"
#include "jaxlib/kernels/parallel.h"
#include "xla/ffi/api/ffi.h"

namespace jaxlib_ext {

namespace ffi = ::xla::ffi;
using Dimensions = ffi::AnyBuffer::Dimensions;

class PoolRunner final : public TaskRunner {
 public:
  explicit PoolRunner(ffi::ThreadPool& pool) : pool_(pool) {}

  size_t num_threads() const override {
    // None where XLA runs without a pool.
    const int64_t threads = pool_.num_threads();
    return threads < 1 ? 1 : static_cast<size_t>(threads);
  }
  void Schedule(std::function<void()> task) override { pool_.Schedule(std::move(task)); }

 private:
  ffi::ThreadPool& pool_;
};

inline std::string ToString(const ffi::AnyBuffer& buffer) {
  std::ostringstream text;
  text << buffer.element_type() << "[";
  const char* separator = "";
  for (const int64_t size : buffer.dimensions()) {
    text << separator << size;
    separator = ",";
  }
  text << "]";
  return text.str();
}

inline bool SameDimensions(const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  const Dimensions x = a.dimensions();
  const Dimensions y = b.dimensions();
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) return false;
  }
  return true;
}

inline bool SameType(const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  return a.element_type() == b.element_type() && SameDimensions(a, b);
}

inline std::optional<ElementType> ElementTypeOf(const ffi::AnyBuffer& buffer) {
  return jaxlib_ext::ElementTypeOf(static_cast<XLA_FFI_DataType>(buffer.element_type()));
}

// Whether sizes are those of an array.
inline bool AreSizes(const Dimensions& dimensions) {
  int64_t elements = 1;
  bool too_many = false;
  for (const int64_t size : dimensions) {
    if (size < 0) return false;
    too_many |= __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements);
  }
  return !too_many;
}

// The product of the sizes from `begin` to `end`.
inline size_t Size(const Dimensions& dimensions, size_t begin, size_t end) {
  size_t size = 1;
  for (size_t i = begin; i < end; ++i) size *= static_cast<size_t>(dimensions[i]);
  return size;
}

// What is wrong with a handler's operands, results or attributes.
class InvalidCall : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// The handler that calls `run` and returns what it throws as an error: exceptions must not reach XLA, which is built
// without.
template <typename Run>
auto Guarded(const char* kernel, Run* run) {
  return [kernel, run](auto... args) -> ffi::Error {
    const auto text = [kernel](const char* what) { return std::string(kernel) + ": " + what; };
    try {
      run(args...);
      return ffi::Error::Success();
    } catch (const InvalidCall& error) {
      return ffi::Error::InvalidArgument(text(error.what()));
    } catch (const std::bad_alloc&) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, text("out of memory"));
    } catch (const std::exception& error) {
      return ffi::Error::Internal(text(error.what()));
    }
  };
}

template <size_t count>
auto BindOperands() {
  if constexpr (count == 0) {
    return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>();
  } else {
    return BindOperands<count - 1>().template Arg<ffi::AnyBuffer>();
  }
}

// What a handler of so many operands, with a result, is called with. More results and attributes may follow.
template <size_t operands>
auto Bind() {
  return BindOperands<operands>().template Ret<ffi::AnyBuffer>();
}

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_HANDLER_SUPPORT_H_
