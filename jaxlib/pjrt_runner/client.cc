#include "jaxlib/pjrt_runner/client.h"

#include <memory>
#include <optional>
#include <utility>

namespace pjrt_runner {
namespace {

// A module of StableHLO, as the API takes it. The functions only read it.
Args<PJRT_Program> ProgramOf(std::string_view module) {
  static constexpr std::string_view kFormat = "mlir";
  Args<PJRT_Program> program;
  program.code = const_cast<char*>(module.data());
  program.code_size = module.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

Device Describe(Plugin& plugin, PJRT_DeviceDescription* description) {
  Args<PJRT_DeviceDescription_Id_Args> id;
  id.device_description = description;
  PJRT_CALL(plugin, PJRT_DeviceDescription_Id, id);
  Args<PJRT_DeviceDescription_ProcessIndex_Args> process;
  process.device_description = description;
  PJRT_CALL(plugin, PJRT_DeviceDescription_ProcessIndex, process);
  Args<PJRT_DeviceDescription_Kind_Args> kind;
  kind.device_description = description;
  PJRT_CALL(plugin, PJRT_DeviceDescription_Kind, kind);
  Args<PJRT_DeviceDescription_ToString_Args> text;
  text.device_description = description;
  PJRT_CALL(plugin, PJRT_DeviceDescription_ToString, text);
  return {nullptr,
          id.id,
          process.process_index,
          std::string(kind.device_kind, kind.device_kind_size),
          std::string(text.to_string, text.to_string_size),
          false};
}

// Row-major order, as host memory has it: without it a plugin may copy in its device's order.
class RowMajor {
 public:
  explicit RowMajor(size_t rank) : minor_to_major_(rank) {
    for (size_t i = 0; i < rank; ++i) minor_to_major_[i] = static_cast<int64_t>(rank - 1 - i);
    layout_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    layout_.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout_.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout_.tiled.minor_to_major = minor_to_major_.data();
    layout_.tiled.minor_to_major_size = rank;
  }

  PJRT_Buffer_MemoryLayout* get() { return &layout_; }

 private:
  std::vector<int64_t> minor_to_major_;
  PJRT_Buffer_MemoryLayout layout_ = {};
};

PJRT_Executable* GetExecutable(const Plugin& plugin, PJRT_LoadedExecutable* loaded) {
  Args<PJRT_LoadedExecutable_GetExecutable_Args> args;
  args.loaded_executable = loaded;
  PJRT_CALL(plugin, PJRT_LoadedExecutable_GetExecutable, args);
  return args.executable;
}

}  // namespace

// Client

Client::Client(Plugin& plugin, const Options& options) : plugin_(plugin) {
  const std::vector<PJRT_NamedValue> values = NamedValues(options);
  Args<PJRT_Client_Create_Args> args;
  args.create_options = values.data();
  args.num_options = values.size();
  PJRT_CALL(plugin, PJRT_Client_Create, args);
  client_ = {plugin, args.client, "PJRT_Client_Destroy"};
}

std::string Client::Platform() const {
  Args<PJRT_Client_PlatformName_Args> args;
  args.client = get();
  PJRT_CALL(plugin_, PJRT_Client_PlatformName, args);
  return std::string(args.platform_name, args.platform_name_size);
}

std::string Client::PlatformVersion() const {
  Args<PJRT_Client_PlatformVersion_Args> args;
  args.client = get();
  PJRT_CALL(plugin_, PJRT_Client_PlatformVersion, args);
  return std::string(args.platform_version, args.platform_version_size);
}

std::vector<Device> Client::Devices() const {
  Args<PJRT_Client_Devices_Args> args;
  args.client = get();
  PJRT_CALL(plugin_, PJRT_Client_Devices, args);
  std::vector<Device> devices;
  for (size_t i = 0; i < args.num_devices; ++i) {
    Args<PJRT_Device_GetDescription_Args> description;
    description.device = args.devices[i];
    PJRT_CALL(plugin_, PJRT_Device_GetDescription, description);
    Args<PJRT_Device_IsAddressable_Args> addressable;
    addressable.device = args.devices[i];
    PJRT_CALL(plugin_, PJRT_Device_IsAddressable, addressable);
    Device& device = devices.emplace_back(Describe(plugin_, description.device_description));
    device.handle = args.devices[i];
    device.is_addressable = addressable.is_addressable;
  }
  return devices;
}

PJRT_Memory* Client::FindMemory(PJRT_Device* device, const std::string& kind) const {
  Args<PJRT_Device_AddressableMemories_Args> args;
  args.device = device;
  PJRT_CALL(plugin_, PJRT_Device_AddressableMemories, args);
  std::string kinds;
  for (size_t i = 0; i < args.num_memories; ++i) {
    Args<PJRT_Memory_Kind_Args> memory;
    memory.memory = args.memories[i];
    PJRT_CALL(plugin_, PJRT_Memory_Kind, memory);
    const std::string_view found(memory.kind, memory.kind_size);
    if (found == kind) return args.memories[i];
    kinds += Cat(kinds.empty() ? "" : ", ", found);
  }
  throw InputError("an argument should be in memory of the kind '", kind,
                   "', and the device has: ", kinds);
}

Buffer Client::ToDevice(const ElementType& type, const Shape& shape,
                        const std::vector<std::byte>& data, PJRT_Device* device,
                        const std::string& memory_kind) const {
  Args<PJRT_Client_BufferFromHostBuffer_Args> args;
  args.client = get();
  // an array without elements has a place in memory, too
  static constexpr std::byte kNothing{};
  args.data = data.empty() ? &kNothing : data.data();
  args.type = type.pjrt;
  args.dims = shape.data();
  args.num_dims = shape.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
  args.device = device;
  args.memory = memory_kind.empty() ? nullptr : FindMemory(device, memory_kind);
  PJRT_CALL(plugin_, PJRT_Client_BufferFromHostBuffer, args);
  Buffer buffer(plugin_, args.buffer, "PJRT_Buffer_Destroy");
  plugin_.Await(args.done_with_host_buffer, "copying an argument to the device");
  return buffer;
}

Array Client::ToHost(const Buffer& buffer) const {
  Args<PJRT_Buffer_ElementType_Args> type;
  type.buffer = buffer.get();
  PJRT_CALL(plugin_, PJRT_Buffer_ElementType, type);
  Args<PJRT_Buffer_Dimensions_Args> dimensions;
  dimensions.buffer = buffer.get();
  PJRT_CALL(plugin_, PJRT_Buffer_Dimensions, dimensions);
  Array array = {TypeOfPjrt(type.type), {}, {}};
  if (array.type == nullptr) {
    throw InputError("a result has elements of PJRT's type ", static_cast<int>(type.type),
                     ", which .npy files have no name for");
  }
  if (dimensions.num_dims > 0) {
    array.shape.assign(dimensions.dims, dimensions.dims + dimensions.num_dims);
  }
  array.data.resize(ByteSize(*array.type, array.shape));
  RowMajor layout(array.shape.size());
  Args<PJRT_Buffer_ToHostBuffer_Args> args;
  args.src = buffer.get();
  args.host_layout = layout.get();
  PJRT_CALL(plugin_, PJRT_Buffer_ToHostBuffer, args);  // asks for the size only
  if (args.dst_size != array.data.size()) {
    throw Error(ErrorKind::kPlugin,
                Cat("the plugin's copy of a result ", TypeText(*array.type, array.shape), " takes ",
                    args.dst_size, " bytes, not ", array.data.size()));
  }
  // Nothing to copy, and null would ask again.
  if (array.data.empty()) return array;
  args.dst = array.data.data();
  PJRT_CALL(plugin_, PJRT_Buffer_ToHostBuffer, args);
  plugin_.Await(args.event, "copying a result to the host");
  return array;
}

// Topology

Topology::Topology(Plugin& plugin, const std::string& name, const Options& options)
    : plugin_(plugin) {
  const std::vector<PJRT_NamedValue> values = NamedValues(options);
  Args<PJRT_TopologyDescription_Create_Args> args;
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = values.data();
  args.num_options = values.size();
  PJRT_CALL(plugin, PJRT_TopologyDescription_Create, args);
  topology_ = {plugin, args.topology, "PJRT_TopologyDescription_Destroy"};
}

std::string Topology::Platform() const {
  Args<PJRT_TopologyDescription_PlatformName_Args> args;
  args.topology = get();
  PJRT_CALL(plugin_, PJRT_TopologyDescription_PlatformName, args);
  return std::string(args.platform_name, args.platform_name_size);
}

std::vector<Device> Topology::Devices() const {
  Args<PJRT_TopologyDescription_GetDeviceDescriptions_Args> args;
  args.topology = get();
  PJRT_CALL(plugin_, PJRT_TopologyDescription_GetDeviceDescriptions, args);
  std::vector<Device> devices;
  for (size_t i = 0; i < args.num_descriptions; ++i) {
    devices.push_back(Describe(plugin_, args.descriptions[i]));
  }
  return devices;
}

// Executable

Executable::Executable(const Topology& topology, std::string_view module,
                       const CompileOptions& options)
    : plugin_(topology.plugin()) {
  const Args<PJRT_Program> program = ProgramOf(module);
  const std::string serialized = pjrt_runner::Serialize(options);
  Args<PJRT_Compile_Args> args;
  args.topology = topology.get();
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  PJRT_CALL(plugin_, PJRT_Compile, args);
  executable_ = {plugin_, args.executable, "PJRT_Executable_Destroy"};
}

Executable::Executable(Plugin& plugin, PJRT_LoadedExecutable* loaded)
    : plugin_(plugin),
      executable_(plugin, GetExecutable(plugin, loaded), "PJRT_Executable_Destroy") {}

std::string Executable::Name() const {
  Args<PJRT_Executable_Name_Args> args;
  args.executable = executable_.get();
  PJRT_CALL(plugin_, PJRT_Executable_Name, args);
  return std::string(args.executable_name, args.executable_name_size);
}

size_t Executable::NumOutputs() const {
  Args<PJRT_Executable_NumOutputs_Args> args;
  args.executable = executable_.get();
  PJRT_CALL(plugin_, PJRT_Executable_NumOutputs, args);
  return args.num_outputs;
}

size_t Executable::NumReplicas() const {
  Args<PJRT_Executable_NumReplicas_Args> args;
  args.executable = executable_.get();
  PJRT_CALL(plugin_, PJRT_Executable_NumReplicas, args);
  return args.num_replicas;
}

size_t Executable::NumPartitions() const {
  Args<PJRT_Executable_NumPartitions_Args> args;
  args.executable = executable_.get();
  PJRT_CALL(plugin_, PJRT_Executable_NumPartitions, args);
  return args.num_partitions;
}

std::string Executable::Serialize() const {
  Args<PJRT_Executable_Serialize_Args> args;
  args.executable = executable_.get();
  PJRT_CALL(plugin_, PJRT_Executable_Serialize, args);
  const auto free = [&](PJRT_SerializedExecutable* serialized) {
    args.serialized_executable_deleter(serialized);
  };
  const std::unique_ptr<PJRT_SerializedExecutable, decltype(free)> owner(args.serialized_executable,
                                                                         free);
  return std::string(args.serialized_bytes, args.serialized_bytes_size);
}

std::vector<std::pair<std::string, int64_t>> Executable::MemoryStats() const {
  if (!plugin_.Has(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) return {};
  Args<PJRT_Executable_GetCompiledMemoryStats_Args> args;
  args.executable = executable_.get();
  try {
    PJRT_CALL(plugin_, PJRT_Executable_GetCompiledMemoryStats, args);
  } catch (const PluginError& error) {
    if (error.code() == PJRT_Error_Code_UNIMPLEMENTED) return {};
    throw;
  }
  return {{"code", args.generated_code_size_in_bytes},
          {"arguments", args.argument_size_in_bytes},
          {"results", args.output_size_in_bytes},
          {"shared by both", args.alias_size_in_bytes},
          {"temporary", args.temp_size_in_bytes},
          {"arguments on the host", args.host_argument_size_in_bytes},
          {"results on the host", args.host_output_size_in_bytes},
          {"temporary on the host", args.host_temp_size_in_bytes}};
}

// LoadedExecutable

LoadedExecutable::LoadedExecutable(const Client& client, PJRT_LoadedExecutable* loaded)
    : client_(&client),
      loaded_(client.plugin(), loaded, "PJRT_LoadedExecutable_Destroy"),
      executable_(client.plugin(), loaded) {
  Args<PJRT_LoadedExecutable_AddressableDevices_Args> args;
  args.executable = loaded;
  PJRT_CALL(client.plugin(), PJRT_LoadedExecutable_AddressableDevices, args);
  devices_.assign(args.addressable_devices,
                  args.addressable_devices + args.num_addressable_devices);
}

LoadedExecutable LoadedExecutable::Compile(const Client& client, std::string_view module,
                                           const CompileOptions& options) {
  const Args<PJRT_Program> program = ProgramOf(module);
  const std::string serialized = pjrt_runner::Serialize(options);
  Args<PJRT_Client_Compile_Args> args;
  args.client = client.get();
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  PJRT_CALL(client.plugin(), PJRT_Client_Compile, args);
  return LoadedExecutable(client, args.executable);
}

LoadedExecutable LoadedExecutable::Load(const Client& client, std::string_view bytes) {
  Args<PJRT_Executable_DeserializeAndLoad_Args> args;
  args.client = client.get();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  PJRT_CALL(client.plugin(), PJRT_Executable_DeserializeAndLoad, args);
  return LoadedExecutable(client, args.loaded_executable);
}

std::vector<std::vector<Buffer>> LoadedExecutable::Run(
    const std::vector<std::vector<Buffer>>& arguments) const {
  Plugin& plugin = client_->plugin();
  const size_t num_devices = arguments.size();
  const size_t num_arguments = arguments.empty() ? 0 : arguments[0].size();
  std::vector<std::vector<PJRT_Buffer*>> given(num_devices);
  std::vector<std::vector<PJRT_Buffer*>> returned(num_devices);
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t i = 0; i < num_devices; ++i) {
    for (const Buffer& buffer : arguments[i]) given[i].push_back(buffer.get());
    returned[i].resize(executable_.NumOutputs());
    argument_lists.push_back(given[i].data());
    output_lists.push_back(returned[i].data());
  }
  std::vector<PJRT_Event*> events(num_devices);
  Args<PJRT_ExecuteOptions> options;
  Args<PJRT_LoadedExecutable_Execute_Args> args;
  args.executable = loaded_.get();
  args.options = &options;
  args.argument_lists = argument_lists.data();
  args.num_devices = num_devices;
  args.num_args = num_arguments;
  args.output_lists = output_lists.data();
  args.device_complete_events = events.data();
  PJRT_CALL(plugin, PJRT_LoadedExecutable_Execute, args);
  std::vector<std::vector<Buffer>> results(num_devices);
  for (size_t i = 0; i < num_devices; ++i) {
    for (PJRT_Buffer* buffer : returned[i]) {
      results[i].emplace_back(plugin, buffer, "PJRT_Buffer_Destroy");
    }
  }
  std::optional<Error> failure;  // of the first device that has one; the others are waited for, too
  for (size_t i = 0; i < num_devices; ++i) {
    try {
      plugin.Await(events[i], "running the program");
    } catch (const Error& error) {
      if (!failure) failure = error;
    }
  }
  if (failure) throw *failure;
  return results;
}

}  // namespace pjrt_runner
