// A PJRT plugin for tests, which runs small programs on the host and fails where it is told to.
//
// A program is text: "stub: add 0 1; identity 1" has two results, the sum of two float32 arguments
// and the second argument. Environment variables, read when a function is called:
//   STUB_FAIL      the name of a function that returns an error; "destroy" for those that free
//   something STUB_MISSING   the name of a function that the plugin does not have STUB_MAJOR the
//   major version of its API STUB_SHAPE     "wrong": results have a dimension more

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

namespace {

// Objects that nobody has freed yet.
std::atomic<int> live_objects = 0;

struct Counted {
  Counted() { ++live_objects; }
  Counted(const Counted&) { ++live_objects; }
  ~Counted() { --live_objects; }
};

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

struct PJRT_Error : Counted {
  explicit PJRT_Error(std::string text) : message(std::move(text)) {}

  std::string message;
  PJRT_Error_Code code = PJRT_Error_Code_INTERNAL;
};

struct PJRT_Event : Counted {};

struct PJRT_DeviceDescription {
  int id;
  std::string text;
};

struct PJRT_Memory {
  std::string kind;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Memory memory = {"device"};
  PJRT_Memory* memories = &memory;
};

namespace {

// Devices have ids that are not their places.
std::vector<PJRT_DeviceDescription> MakeDescriptions(int64_t count) {
  std::vector<PJRT_DeviceDescription> descriptions;
  for (int i = 0; i < count; ++i)
    descriptions.push_back({10 + i, "stub " + std::to_string(10 + i)});
  return descriptions;
}

}  // namespace

struct PJRT_Client : Counted {
  std::string platform = "cpu";
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
};

struct PJRT_TopologyDescription : Counted {
  std::vector<PJRT_DeviceDescription> descriptions;
  std::vector<PJRT_DeviceDescription*> pointers;
};

struct PJRT_Executable : Counted {
  std::string program;
  std::string options;  // as text, which is the name of the executable
  int64_t replicas = 1;
  int64_t partitions = 1;
  std::vector<int64_t> ids;
};

struct PJRT_LoadedExecutable : Counted {
  PJRT_Executable executable;
  std::vector<PJRT_Device*> devices;
};

struct PJRT_Buffer : Counted {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::string data;
};

struct PJRT_SerializedExecutable : Counted {
  std::string bytes;
};

namespace {

PJRT_Error* Begin(const char* name, size_t size, size_t wanted) {
  if (Setting("STUB_FAIL") == name) return new PJRT_Error("told to fail");
  if (size < wanted) return new PJRT_Error("the struct is too small");
  return nullptr;
}

// The functions that free: an object, and an error where they are told to.
template <typename T>
PJRT_Error* Destroy(const char* name, T* object) {
  delete object;
  const std::string fail = Setting("STUB_FAIL");
  return fail == name || fail == "destroy" ? new PJRT_Error("told to fail") : nullptr;
}

#define STUB(name) PJRT_Error* Stub_##name(name##_Args* args)
#define BEGIN(name) \
  if (PJRT_Error* error = Begin(#name, args->struct_size, name##_Args_STRUCT_SIZE)) return error

void Stub_PJRT_Error_Destroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void Stub_PJRT_Error_Message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

STUB(PJRT_Error_GetCode) {
  BEGIN(PJRT_Error_GetCode);
  args->code = args->error->code;
  return nullptr;
}

STUB(PJRT_Plugin_Initialize) {
  BEGIN(PJRT_Plugin_Initialize);
  return nullptr;
}

STUB(PJRT_Plugin_Attributes) {
  BEGIN(PJRT_Plugin_Attributes);
  static constexpr int64_t kVersion[] = {1, 2, 3};
  static PJRT_NamedValue values[2] = {};
  values[0].name = "flavour";
  values[0].name_size = 7;
  values[0].type = PJRT_NamedValue_kString;
  values[0].string_value = "plain";
  values[0].value_size = 5;
  values[1].name = "stablehlo";
  values[1].name_size = 9;
  values[1].type = PJRT_NamedValue_kInt64List;
  values[1].int64_array_value = kVersion;
  values[1].value_size = 3;
  args->attributes = values;
  args->num_attributes = 2;
  return nullptr;
}

STUB(PJRT_Event_Destroy) { return Destroy("PJRT_Event_Destroy", args->event); }

STUB(PJRT_Event_Await) {
  BEGIN(PJRT_Event_Await);
  return nullptr;
}

// Options are "devices" and "platform".
PJRT_Error* ReadOptions(const PJRT_NamedValue* options, size_t count, int64_t& devices,
                        std::string& platform) {
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& option = options[i];
    const std::string_view name(option.name, option.name_size);
    if (name == "devices" && option.type == PJRT_NamedValue_kInt64) {
      devices = option.int64_value;
    } else if (name == "platform" && option.type == PJRT_NamedValue_kString) {
      platform.assign(option.string_value, option.value_size);
    } else {
      return new PJRT_Error("unknown option " + std::string(name));
    }
  }
  return nullptr;
}

STUB(PJRT_Client_Create) {
  BEGIN(PJRT_Client_Create);
  auto* client = new PJRT_Client;
  int64_t devices = 1;
  if (PJRT_Error* error =
          ReadOptions(args->create_options, args->num_options, devices, client->platform)) {
    delete client;
    return error;
  }
  client->devices.reserve(static_cast<size_t>(devices));
  for (const PJRT_DeviceDescription& description : MakeDescriptions(devices)) {
    PJRT_Device& device = client->devices.emplace_back();
    device.description = description;
    device.memories = &device.memory;
    client->pointers.push_back(&device);
  }
  args->client = client;
  return nullptr;
}

STUB(PJRT_Client_Destroy) { return Destroy("PJRT_Client_Destroy", args->client); }

STUB(PJRT_Client_PlatformName) {
  BEGIN(PJRT_Client_PlatformName);
  args->platform_name = args->client->platform.data();
  args->platform_name_size = args->client->platform.size();
  return nullptr;
}

STUB(PJRT_Client_PlatformVersion) {
  BEGIN(PJRT_Client_PlatformVersion);
  args->platform_version = "stub 1";
  args->platform_version_size = 6;
  return nullptr;
}

STUB(PJRT_Client_Devices) {
  BEGIN(PJRT_Client_Devices);
  args->devices = args->client->pointers.data();
  args->num_devices = args->client->pointers.size();
  return nullptr;
}

STUB(PJRT_DeviceDescription_Id) {
  BEGIN(PJRT_DeviceDescription_Id);
  args->id = args->device_description->id;
  return nullptr;
}

STUB(PJRT_DeviceDescription_ProcessIndex) {
  BEGIN(PJRT_DeviceDescription_ProcessIndex);
  args->process_index = 0;
  return nullptr;
}

STUB(PJRT_DeviceDescription_Kind) {
  BEGIN(PJRT_DeviceDescription_Kind);
  args->device_kind = "stub kind";
  args->device_kind_size = 9;
  return nullptr;
}

STUB(PJRT_DeviceDescription_ToString) {
  BEGIN(PJRT_DeviceDescription_ToString);
  args->to_string = args->device_description->text.data();
  args->to_string_size = args->device_description->text.size();
  return nullptr;
}

STUB(PJRT_Device_GetDescription) {
  BEGIN(PJRT_Device_GetDescription);
  args->device_description = &args->device->description;
  return nullptr;
}

STUB(PJRT_Device_IsAddressable) {
  BEGIN(PJRT_Device_IsAddressable);
  args->is_addressable = true;
  return nullptr;
}

STUB(PJRT_Device_AddressableMemories) {
  BEGIN(PJRT_Device_AddressableMemories);
  args->memories = &args->device->memories;
  args->num_memories = 1;
  return nullptr;
}

STUB(PJRT_Memory_Kind) {
  BEGIN(PJRT_Memory_Kind);
  args->kind = args->memory->kind.data();
  args->kind_size = args->memory->kind.size();
  return nullptr;
}

// Compiling

// A message of protocol buffers, of which fields are taken in any order.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  // Calls `visit` with the number of each field, and its number or bytes.
  template <typename Visit>
  void Fields(Visit visit) {
    while (!bytes_.empty()) {
      const uint64_t tag = Varint();
      if ((tag & 7) == 2) {
        const uint64_t size = Varint();
        visit(tag >> 3, int64_t{0}, bytes_.substr(0, size));
        bytes_.remove_prefix(size);
      } else if ((tag & 7) == 1) {
        visit(tag >> 3, int64_t{0}, bytes_.substr(0, 8));
        bytes_.remove_prefix(8);
      } else {
        visit(tag >> 3, static_cast<int64_t>(Varint()), std::string_view());
      }
    }
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

void ReadAssignment(std::string_view bytes, PJRT_Executable& executable) {
  std::vector<std::vector<int64_t>> replicas_of;  // of each partition
  Message(bytes).Fields([&](uint64_t field, int64_t, std::string_view partition) {
    if (field != 3) return;
    Message(partition).Fields([&](uint64_t, int64_t, std::string_view ids) {
      std::vector<int64_t>& own = replicas_of.emplace_back();
      for (Message packed(ids); !packed.empty();)
        own.push_back(static_cast<int64_t>(packed.Varint()));
    });
  });
  for (size_t replica = 0; replica < replicas_of.at(0).size(); ++replica) {
    for (const std::vector<int64_t>& replicas : replicas_of) {
      executable.ids.push_back(replicas.at(replica));
    }
  }
}

// Fills in what the options and the program say.
PJRT_Error* CompileInto(const PJRT_Program* program, std::string_view options,
                        PJRT_Executable& executable) {
  executable.program.assign(program->code, program->code_size);
  if (std::string_view(program->format, program->format_size) != "mlir") {
    return new PJRT_Error("the format is wrong");
  }
  if (!executable.program.starts_with("stub:")) return new PJRT_Error("not a program of the stub");
  bool shardy = false;
  std::string overrides;
  Message(options).Fields([&](uint64_t field, int64_t, std::string_view bytes) {
    if (field == 7) {
      Message(bytes).Fields([&](uint64_t part, int64_t, std::string_view text) {
        if (part == 1) overrides += " " + std::string(text);
      });
    }
    if (field != 3) return;
    Message(bytes).Fields([&](uint64_t part, int64_t number, std::string_view text) {
      if (part == 4) executable.replicas = number;
      if (part == 5) executable.partitions = number;
      if (part == 9) ReadAssignment(text, executable);
      if (part == 19) shardy = number != 0;
    });
  });
  std::ostringstream name;
  name << "replicas " << executable.replicas << " partitions " << executable.partitions << " on";
  for (const int64_t id : executable.ids) name << " " << id;
  name << (shardy ? " shardy" : "") << overrides;
  executable.options = name.str();
  return nullptr;
}

PJRT_Error* LoadOn(PJRT_Client* client, PJRT_LoadedExecutable* loaded) {
  for (const int64_t id : loaded->executable.ids) {
    const auto found =
        std::find_if(client->devices.begin(), client->devices.end(),
                     [&](const PJRT_Device& device) { return device.description.id == id; });
    if (found == client->devices.end()) return new PJRT_Error("a device is not there");
    loaded->devices.push_back(&*found);
  }
  return nullptr;
}

STUB(PJRT_Client_Compile) {
  BEGIN(PJRT_Client_Compile);
  auto* loaded = new PJRT_LoadedExecutable;
  PJRT_Error* error = CompileInto(
      args->program, {args->compile_options, args->compile_options_size}, loaded->executable);
  if (error == nullptr) error = LoadOn(args->client, loaded);
  if (error != nullptr) {
    delete loaded;
    return error;
  }
  args->executable = loaded;
  return nullptr;
}

STUB(PJRT_Compile) {
  BEGIN(PJRT_Compile);
  auto* executable = new PJRT_Executable;
  if (PJRT_Error* error = CompileInto(
          args->program, {args->compile_options, args->compile_options_size}, *executable)) {
    delete executable;
    return error;
  }
  args->executable = executable;
  return nullptr;
}

STUB(PJRT_TopologyDescription_Create) {
  BEGIN(PJRT_TopologyDescription_Create);
  int64_t devices = 2;
  std::string platform;
  if (PJRT_Error* error = ReadOptions(args->create_options, args->num_options, devices, platform)) {
    return error;
  }
  args->topology = new PJRT_TopologyDescription;
  args->topology->descriptions = MakeDescriptions(devices);
  for (PJRT_DeviceDescription& description : args->topology->descriptions) {
    args->topology->pointers.push_back(&description);
  }
  return nullptr;
}

STUB(PJRT_TopologyDescription_Destroy) {
  return Destroy("PJRT_TopologyDescription_Destroy", args->topology);
}

STUB(PJRT_TopologyDescription_PlatformName) {
  BEGIN(PJRT_TopologyDescription_PlatformName);
  args->platform_name = "cpu";
  args->platform_name_size = 3;
  return nullptr;
}

STUB(PJRT_TopologyDescription_GetDeviceDescriptions) {
  BEGIN(PJRT_TopologyDescription_GetDeviceDescriptions);
  args->descriptions = args->topology->pointers.data();
  args->num_descriptions = args->topology->pointers.size();
  return nullptr;
}

// Executables

STUB(PJRT_Executable_Destroy) { return Destroy("PJRT_Executable_Destroy", args->executable); }

STUB(PJRT_LoadedExecutable_Destroy) {
  return Destroy("PJRT_LoadedExecutable_Destroy", args->executable);
}

STUB(PJRT_LoadedExecutable_GetExecutable) {
  BEGIN(PJRT_LoadedExecutable_GetExecutable);
  args->executable = new PJRT_Executable(args->loaded_executable->executable);
  return nullptr;
}

STUB(PJRT_LoadedExecutable_AddressableDevices) {
  BEGIN(PJRT_LoadedExecutable_AddressableDevices);
  args->addressable_devices = args->executable->devices.data();
  args->num_addressable_devices = args->executable->devices.size();
  return nullptr;
}

STUB(PJRT_Executable_Name) {
  BEGIN(PJRT_Executable_Name);
  args->executable_name = args->executable->options.data();
  args->executable_name_size = args->executable->options.size();
  return nullptr;
}

STUB(PJRT_Executable_NumReplicas) {
  BEGIN(PJRT_Executable_NumReplicas);
  args->num_replicas = static_cast<size_t>(args->executable->replicas);
  return nullptr;
}

STUB(PJRT_Executable_NumPartitions) {
  BEGIN(PJRT_Executable_NumPartitions);
  args->num_partitions = static_cast<size_t>(args->executable->partitions);
  return nullptr;
}

STUB(PJRT_Executable_NumOutputs) {
  BEGIN(PJRT_Executable_NumOutputs);
  const std::string& program = args->executable->program;
  args->num_outputs = 1 + static_cast<size_t>(std::count(program.begin(), program.end(), ';'));
  return nullptr;
}

STUB(PJRT_Executable_GetCompiledMemoryStats) {
  BEGIN(PJRT_Executable_GetCompiledMemoryStats);
  args->argument_size_in_bytes = 24;
  return nullptr;
}

STUB(PJRT_Executable_Serialize) {
  BEGIN(PJRT_Executable_Serialize);
  auto* serialized = new PJRT_SerializedExecutable;
  std::ostringstream bytes;
  bytes << args->executable->program << "\n" << args->executable->ids.size();
  for (const int64_t id : args->executable->ids) bytes << " " << id;
  serialized->bytes = bytes.str();
  args->serialized_executable = serialized;
  args->serialized_bytes = serialized->bytes.data();
  args->serialized_bytes_size = serialized->bytes.size();
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* done) { delete done; };
  return nullptr;
}

STUB(PJRT_Executable_DeserializeAndLoad) {
  BEGIN(PJRT_Executable_DeserializeAndLoad);
  auto* loaded = new PJRT_LoadedExecutable;
  std::istringstream bytes(
      std::string(args->serialized_executable, args->serialized_executable_size));
  std::getline(bytes, loaded->executable.program);
  size_t count = 0;
  bytes >> count;
  for (size_t i = 0; i < std::min<size_t>(count, 64); ++i) {
    bytes >> loaded->executable.ids.emplace_back();
  }
  PJRT_Error* error =
      bytes.fail() ? new PJRT_Error("not an executable") : LoadOn(args->client, loaded);
  if (error != nullptr) {
    delete loaded;
    return error;
  }
  args->loaded_executable = loaded;
  return nullptr;
}

// Running

PJRT_Buffer* Compute(const std::string& operation, PJRT_Buffer* const* arguments, size_t count) {
  std::istringstream text(operation);
  std::string name;
  size_t first = count;
  size_t second = count;
  text >> name >> first >> second;
  if (first >= count) return nullptr;
  auto* result = new PJRT_Buffer(*arguments[first]);
  if (name == "add" && second < count) {
    for (size_t i = 0; i + sizeof(float) <= result->data.size(); i += sizeof(float)) {
      float x, y;
      std::memcpy(&x, result->data.data() + i, sizeof x);
      std::memcpy(&y, arguments[second]->data.data() + i, sizeof y);
      x += y;
      std::memcpy(result->data.data() + i, &x, sizeof x);
    }
  }
  if (Setting("STUB_SHAPE") == "wrong") result->dims.push_back(1);
  return result;
}

STUB(PJRT_LoadedExecutable_Execute) {
  BEGIN(PJRT_LoadedExecutable_Execute);
  if (args->num_devices != args->executable->devices.size()) {
    return new PJRT_Error("lists for another number of devices");
  }
  std::vector<std::vector<std::unique_ptr<PJRT_Buffer>>> results(args->num_devices);
  for (size_t device = 0; device < args->num_devices; ++device) {
    std::istringstream operations(args->executable->executable.program.substr(5));
    for (std::string operation; std::getline(operations, operation, ';');) {
      results[device].emplace_back(
          Compute(operation, args->argument_lists[device], args->num_args));
      if (results[device].back() == nullptr) return new PJRT_Error("an argument is missing");
    }
  }
  for (size_t device = 0; device < args->num_devices; ++device) {
    for (size_t i = 0; i < results[device].size(); ++i) {
      args->output_lists[device][i] = results[device][i].release();
    }
    args->device_complete_events[device] = new PJRT_Event;
  }
  return nullptr;
}

STUB(PJRT_Client_BufferFromHostBuffer) {
  BEGIN(PJRT_Client_BufferFromHostBuffer);
  size_t size = args->type == PJRT_Buffer_Type_F32 || args->type == PJRT_Buffer_Type_S32 ? 4
                : args->type == PJRT_Buffer_Type_BF16                                    ? 2
                                                                                         : 1;
  for (size_t i = 0; i < args->num_dims; ++i) size *= static_cast<size_t>(args->dims[i]);
  auto* buffer = new PJRT_Buffer;
  buffer->type = args->type;
  buffer->dims.assign(args->dims, args->dims + args->num_dims);
  buffer->data.assign(static_cast<const char*>(args->data), size);
  args->buffer = buffer;
  args->done_with_host_buffer = new PJRT_Event;
  return nullptr;
}

STUB(PJRT_Buffer_Destroy) { return Destroy("PJRT_Buffer_Destroy", args->buffer); }

STUB(PJRT_Buffer_ElementType) {
  BEGIN(PJRT_Buffer_ElementType);
  args->type = args->buffer->type;
  return nullptr;
}

STUB(PJRT_Buffer_Dimensions) {
  BEGIN(PJRT_Buffer_Dimensions);
  args->dims = args->buffer->dims.data();
  args->num_dims = args->buffer->dims.size();
  return nullptr;
}

STUB(PJRT_Buffer_ToHostBuffer) {
  BEGIN(PJRT_Buffer_ToHostBuffer);
  if (args->host_layout == nullptr) return new PJRT_Error("no layout is asked for");
  if (args->dst == nullptr) {
    args->dst_size = args->src->data.size();
    return nullptr;
  }
  std::memcpy(args->dst, args->src->data.data(), args->src->data.size());
  args->event = new PJRT_Event;
  return nullptr;
}

}  // namespace

// The number of objects that were made and not freed.
extern "C" __attribute__((visibility("default"))) int StubLiveObjects() { return live_objects; }

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api;
  api = {};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  const std::string major = Setting("STUB_MAJOR");
  api.pjrt_api_version.major_version = major.empty() ? PJRT_API_MAJOR : std::stoi(major);
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  const std::string missing = Setting("STUB_MISSING");
#define ADD(name) api.name = missing == #name ? nullptr : Stub_##name
  ADD(PJRT_Error_Destroy);
  ADD(PJRT_Error_Message);
  ADD(PJRT_Error_GetCode);
  ADD(PJRT_Plugin_Initialize);
  ADD(PJRT_Plugin_Attributes);
  ADD(PJRT_Event_Destroy);
  ADD(PJRT_Event_Await);
  ADD(PJRT_Client_Create);
  ADD(PJRT_Client_Destroy);
  ADD(PJRT_Client_PlatformName);
  ADD(PJRT_Client_PlatformVersion);
  ADD(PJRT_Client_Devices);
  ADD(PJRT_Client_Compile);
  ADD(PJRT_Client_BufferFromHostBuffer);
  ADD(PJRT_DeviceDescription_Id);
  ADD(PJRT_DeviceDescription_ProcessIndex);
  ADD(PJRT_DeviceDescription_Kind);
  ADD(PJRT_DeviceDescription_ToString);
  ADD(PJRT_Device_GetDescription);
  ADD(PJRT_Device_IsAddressable);
  ADD(PJRT_Device_AddressableMemories);
  ADD(PJRT_Memory_Kind);
  ADD(PJRT_Executable_Destroy);
  ADD(PJRT_Executable_Name);
  ADD(PJRT_Executable_NumReplicas);
  ADD(PJRT_Executable_NumPartitions);
  ADD(PJRT_Executable_NumOutputs);
  ADD(PJRT_Executable_GetCompiledMemoryStats);
  ADD(PJRT_Executable_Serialize);
  ADD(PJRT_Executable_DeserializeAndLoad);
  ADD(PJRT_LoadedExecutable_Destroy);
  ADD(PJRT_LoadedExecutable_GetExecutable);
  ADD(PJRT_LoadedExecutable_AddressableDevices);
  ADD(PJRT_LoadedExecutable_Execute);
  ADD(PJRT_Buffer_Destroy);
  ADD(PJRT_Buffer_ElementType);
  ADD(PJRT_Buffer_Dimensions);
  ADD(PJRT_Buffer_ToHostBuffer);
  ADD(PJRT_TopologyDescription_Create);
  ADD(PJRT_TopologyDescription_Destroy);
  ADD(PJRT_TopologyDescription_PlatformName);
  ADD(PJRT_TopologyDescription_GetDeviceDescriptions);
  ADD(PJRT_Compile);
#undef ADD
  return &api;
}
