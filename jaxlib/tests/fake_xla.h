// Calls of handlers as XLA makes them, without XLA.

#ifndef JAXLIB_TESTS_FAKE_XLA_H_
#define JAXLIB_TESTS_FAKE_XLA_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace jaxlib_ext {

struct CallError {
  XLA_FFI_Error_Code code;
  std::string message;
};

// Collects operands, results and attributes, and calls a handler with them.
class FakeCall {
 public:
  // `data` must have room for the elements.
  void AddOperand(XLA_FFI_DataType type, std::vector<int64_t> dimensions, void* data);
  void AddResult(XLA_FFI_DataType type, std::vector<int64_t> dimensions, void* data);
  void AddAttribute(std::string name, int64_t value);
  void AddAttribute(std::string name, std::vector<int64_t> values);
  void AddRealAttribute(std::string name, double value);

  // Returns the handler's error, if there was one. Tasks run on `num_threads` threads.
  std::optional<CallError> Run(XLA_FFI_Handler* handler, int64_t num_threads);

 private:
  // In containers that leave elements where they are.
  struct Array {
    std::vector<int64_t> dimensions;
    XLA_FFI_Buffer buffer;
  };
  struct Attribute {
    std::string name;
    std::vector<int64_t> values;
    double real;
    XLA_FFI_ByteSpan span;
    XLA_FFI_AttrType type;
    XLA_FFI_Scalar scalar;
    XLA_FFI_Array array;
  };

  static void Add(std::deque<Array>& to, XLA_FFI_DataType type, std::vector<int64_t> dimensions,
                  void* data);

  std::deque<Array> operands_;
  std::deque<Array> results_;
  std::deque<Attribute> attributes_;
};

}  // namespace jaxlib_ext

#endif  // JAXLIB_TESTS_FAKE_XLA_H_
