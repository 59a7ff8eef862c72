#include "jaxlib/tests/fake_xla.h"

#include <thread>
#include <utility>

// Opaque in XLA's interface.
struct XLA_FFI_Error {
  jaxlib_ext::CallError error;
};
struct XLA_FFI_ExecutionContext {
  int64_t num_threads;
  std::vector<std::thread> threads;
};

namespace jaxlib_ext {
namespace {

XLA_FFI_Error* CreateError(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{{args->errc, args->message}};
}

void GetMessage(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->error.message.c_str();
}

void DestroyError(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* Schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  args->ctx->threads.emplace_back(args->task, args->data);
  return nullptr;
}

XLA_FFI_Error* NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = args->ctx->num_threads;
  return nullptr;
}

XLA_FFI_Api MakeApi() {
  XLA_FFI_Api api = {};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.XLA_FFI_Error_Create = CreateError;
  api.XLA_FFI_Error_GetMessage = GetMessage;
  api.XLA_FFI_Error_Destroy = DestroyError;
  api.XLA_FFI_ThreadPool_Schedule = Schedule;
  api.XLA_FFI_ThreadPool_NumThreads = NumThreads;
  return api;
}

}  // namespace

void FakeCall::Add(std::deque<Array>& to, XLA_FFI_DataType type, std::vector<int64_t> dimensions,
                   void* data) {
  Array& array = to.emplace_back();
  array.dimensions = std::move(dimensions);
  array.buffer = {};
  array.buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  array.buffer.dtype = type;
  array.buffer.data = data;
  array.buffer.rank = static_cast<int64_t>(array.dimensions.size());
  array.buffer.dims = array.dimensions.data();
}

void FakeCall::AddOperand(XLA_FFI_DataType type, std::vector<int64_t> dimensions, void* data) {
  Add(operands_, type, std::move(dimensions), data);
}

void FakeCall::AddResult(XLA_FFI_DataType type, std::vector<int64_t> dimensions, void* data) {
  Add(results_, type, std::move(dimensions), data);
}

void FakeCall::AddAttribute(std::string name, int64_t value) {
  AddAttribute(std::move(name), std::vector<int64_t>{value});
  attributes_.back().type = XLA_FFI_AttrType_SCALAR;
}

void FakeCall::AddAttribute(std::string name, std::vector<int64_t> values) {
  Attribute& attribute = attributes_.emplace_back();
  attribute.name = std::move(name);
  attribute.values = std::move(values);
  attribute.span = {attribute.name.data(), attribute.name.size()};
  attribute.type = XLA_FFI_AttrType_ARRAY;
  attribute.scalar = {XLA_FFI_DataType_S64, attribute.values.data()};
  attribute.array = {XLA_FFI_DataType_S64, attribute.values.size(), attribute.values.data()};
}

void FakeCall::AddRealAttribute(std::string name, double value) {
  AddAttribute(std::move(name), int64_t{0});
  Attribute& attribute = attributes_.back();
  attribute.real = value;
  attribute.scalar = {XLA_FFI_DataType_F64, &attribute.real};
}

std::optional<CallError> FakeCall::Run(XLA_FFI_Handler* handler, int64_t num_threads) {
  static const XLA_FFI_Api api = MakeApi();
  XLA_FFI_ExecutionContext context{num_threads, {}};
  std::vector<void*> operands;
  std::vector<void*> results;
  std::vector<void*> attributes;
  std::vector<XLA_FFI_AttrType> attribute_types;
  std::vector<XLA_FFI_ByteSpan*> names;
  for (Array& array : operands_) operands.push_back(&array.buffer);
  for (Array& array : results_) results.push_back(&array.buffer);
  for (Attribute& attribute : attributes_) {
    const bool scalar = attribute.type == XLA_FFI_AttrType_SCALAR;
    attributes.push_back(scalar ? static_cast<void*>(&attribute.scalar) : &attribute.array);
    attribute_types.push_back(attribute.type);
    names.push_back(&attribute.span);
  }
  std::vector<XLA_FFI_ArgType> operand_types(operands.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> result_types(results.size(), XLA_FFI_RetType_BUFFER);
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.ctx = &context;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<int64_t>(operands.size()),
                operand_types.data(), operands.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<int64_t>(results.size()),
                result_types.data(), results.data()};
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,      static_cast<int64_t>(attributes.size()),
                 attribute_types.data(),    names.data(), attributes.data()};
  XLA_FFI_Error* error = handler(&frame);
  for (std::thread& thread : context.threads) thread.join();
  if (error == nullptr) return std::nullopt;
  CallError copy = error->error;
  delete error;
  return copy;
}

}  // namespace jaxlib_ext
