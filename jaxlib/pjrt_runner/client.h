// What a plugin has: devices, or descriptions of absent ones, and the programs compiled for them.

#ifndef JAXLIB_PJRT_RUNNER_CLIENT_H_
#define JAXLIB_PJRT_RUNNER_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jaxlib/pjrt_runner/compile_options.h"
#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/pjrt_plugin.h"

namespace pjrt_runner {

// All functions throw an Error where the plugin returns one.

struct Device {
  PJRT_Device* handle;  // null in a topology
  int64_t id;
  int64_t process;
  std::string kind;  // "TPU v5 lite"
  std::string text;
  bool is_addressable;  // by this process
};

using Buffer = Handle<PJRT_Buffer, PJRT_Buffer_Destroy_Args, &PJRT_Buffer_Destroy_Args::buffer,
                      &PJRT_Api::PJRT_Buffer_Destroy>;

class Client {
 public:
  Client(Plugin& plugin, const Options& options);

  Plugin& plugin() const { return plugin_; }
  PJRT_Client* get() const { return client_.get(); }
  std::string Platform() const;
  std::string PlatformVersion() const;
  std::vector<Device> Devices() const;

  // Copies an array to a device; `memory_kind` is one of its memories, or empty for the default
  // one.
  Buffer ToDevice(const ElementType& type, const Shape& shape, const std::vector<std::byte>& data,
                  PJRT_Device* device, const std::string& memory_kind) const;
  Array ToHost(const Buffer& buffer) const;

 private:
  PJRT_Memory* FindMemory(PJRT_Device* device, const std::string& kind) const;

  Plugin& plugin_;
  Handle<PJRT_Client, PJRT_Client_Destroy_Args, &PJRT_Client_Destroy_Args::client,
         &PJRT_Api::PJRT_Client_Destroy>
      client_;
};

// Devices that need not be there.
class Topology {
 public:
  Topology(Plugin& plugin, const std::string& name, const Options& options);

  Plugin& plugin() const { return plugin_; }
  PJRT_TopologyDescription* get() const { return topology_.get(); }
  std::string Platform() const;
  std::vector<Device> Devices() const;

 private:
  Plugin& plugin_;
  Handle<PJRT_TopologyDescription, PJRT_TopologyDescription_Destroy_Args,
         &PJRT_TopologyDescription_Destroy_Args::topology,
         &PJRT_Api::PJRT_TopologyDescription_Destroy>
      topology_;
};

// A compiled program.
class Executable {
 public:
  // For devices that need not be there.
  Executable(const Topology& topology, std::string_view module, const CompileOptions& options);
  Executable(Plugin& plugin, PJRT_LoadedExecutable* loaded);

  std::string Name() const;
  size_t NumOutputs() const;
  size_t NumReplicas() const;
  size_t NumPartitions() const;
  // Bytes that the same version of the plugin loads.
  std::string Serialize() const;
  // What it needs in bytes: "arguments", "results" and so on; empty if the plugin does not tell.
  std::vector<std::pair<std::string, int64_t>> MemoryStats() const;

 private:
  Plugin& plugin_;
  Handle<PJRT_Executable, PJRT_Executable_Destroy_Args, &PJRT_Executable_Destroy_Args::executable,
         &PJRT_Api::PJRT_Executable_Destroy>
      executable_;
};

// A compiled program on its devices.
class LoadedExecutable {
 public:
  static LoadedExecutable Compile(const Client& client, std::string_view module,
                                  const CompileOptions& options);
  // What Executable::Serialize has made.
  static LoadedExecutable Load(const Client& client, std::string_view bytes);

  const Client& client() const { return *client_; }
  const Executable& executable() const { return executable_; }
  // Those of this process, in the order of the program's replicas and partitions.
  const std::vector<PJRT_Device*>& devices() const { return devices_; }

  // Runs on all devices, for each of which there is one list of arguments, and returns its results.
  std::vector<std::vector<Buffer>> Run(const std::vector<std::vector<Buffer>>& arguments) const;

 private:
  using LoadedHandle = Handle<PJRT_LoadedExecutable, PJRT_LoadedExecutable_Destroy_Args,
                              &PJRT_LoadedExecutable_Destroy_Args::executable,
                              &PJRT_Api::PJRT_LoadedExecutable_Destroy>;

  LoadedExecutable(const Client& client, PJRT_LoadedExecutable* loaded);

  const Client* client_;
  LoadedHandle loaded_;
  Executable executable_;
  std::vector<PJRT_Device*> devices_;
};

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_CLIENT_H_
