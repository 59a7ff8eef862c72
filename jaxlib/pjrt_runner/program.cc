#include "jaxlib/pjrt_runner/program.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "jaxlib/pjrt_runner/client.h"
#include "jaxlib/pjrt_runner/command_line.h"
#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/files.h"
#include "jaxlib/pjrt_runner/npy.h"
#include "jaxlib/pjrt_runner/runner.h"

namespace pjrt_runner {
namespace {

class Stopwatch {
 public:
  std::string Seconds() const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    return Cat(seconds.count(), " s");
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void PrintVersion(const CommandLine& line, std::ostream& out) {
  out << "pjrt_runner for version " << PJRT_API_MAJOR << "." << PJRT_API_MINOR
      << " of the PJRT API\n";
  if (line.plugin.empty()) return;
  const std::unique_ptr<Plugin> plugin = Plugin::Load(line.plugin);
  out << plugin->path() << ": version " << plugin->major_version() << "." << plugin->minor_version()
      << "\n";
  if (!plugin->Has(&PJRT_Api::PJRT_Plugin_Attributes)) return;
  for (const auto& [name, value] : plugin->Attributes()) {
    out << "  " << name << ": " << value << "\n";
  }
}

void PrintDevices(const std::string& platform, const std::vector<Device>& devices,
                  std::ostream& out) {
  out << "platform " << platform << ", " << devices.size()
      << (devices.size() == 1 ? " device" : " devices") << "\n";
  for (const Device& device : devices) {
    out << "  id " << device.id << ": " << device.kind << ", process " << device.process << ", "
        << device.text << "\n";
  }
}

void ListDevices(const CommandLine& line, Plugin& plugin, std::ostream& out) {
  if (!line.topology.empty()) {
    const Topology topology(plugin, line.topology, line.options);
    PrintDevices(topology.Platform(), topology.Devices(), out);
    return;
  }
  const Client client(plugin, line.options);
  PrintDevices(client.Platform() + " (" + client.PlatformVersion() + ")", client.Devices(), out);
}

void Describe(const CommandLine& line, std::ostream& out) {
  const std::string bytes = ReadFile(line.module);
  if (IsMlir(bytes)) {
    out << "a module of StableHLO: its arguments and results are not described\n";
    return;
  }
  const ExportedProgram program = ParseExported(bytes);
  out << pjrt_runner::Describe(program);
  CheckRunnable(program);
}

// What the command line says, and what an exported program says of itself.
CompileOptions OptionsFor(const CommandLine& line, const Program& program,
                          const std::vector<Device>& devices) {
  CompileOptions options = line.compile;
  if (program.signature) {
    if (line.flags.contains("replicas") || line.flags.contains("partitions")) {
      throw Error(ErrorKind::kUsage,
                  "--replicas and --partitions are for modules: the exported program has its own");
    }
    options.num_partitions = program.signature->num_devices;
  }
  options.device_ids = ChooseDevices(devices, options.num_replicas * options.num_partitions,
                                     line.compile.device_ids);
  return options;
}

size_t PlatformOf(const CommandLine& line, const Program& program, const std::string& platform) {
  if (!program.signature) {
    if (line.platform.empty()) return 0;
    throw Error(ErrorKind::kUsage,
                "--platform is for exported programs: a module takes no platform");
  }
  return PlatformIndex(*program.signature, line.platform.empty() ? platform : line.platform);
}

// Calls a function that compiles. Of a program for several platforms, all of them are compiled.
template <typename Compile>
auto WithHint(const Program& program, Compile compile) {
  try {
    return compile();
  } catch (const PluginError& error) {
    if (!program.signature || !program.signature->TakesPlatform()) throw;
    throw PluginError(error.code(),
                      Cat(error.what(),
                          "\nThe program is for several platforms, and the plugin compiles the"
                          " code for all of them: export it for this one only, if that is"
                          " what it cannot compile."));
  }
}

void Report(const Executable& executable, const std::string& seconds, std::ostream& out) {
  out << "compiled '" << Printable(executable.Name()) << "' in " << seconds << " for "
      << executable.NumReplicas() * executable.NumPartitions() << " devices\n";
  for (const auto& [name, bytes] : executable.MemoryStats()) {
    if (bytes > 0) out << "  bytes on each device, " << name << ": " << bytes << "\n";
  }
}

void Save(const CommandLine& line, const Executable& executable) {
  if (!line.save_executable.empty()) WriteFile(line.save_executable, executable.Serialize());
}

void CompileForTopology(const CommandLine& line, const Program& program, Plugin& plugin,
                        std::ostream& out) {
  const Topology topology(plugin, line.topology, line.options);
  PlatformOf(line, program, topology.Platform());
  const CompileOptions options = OptionsFor(line, program, topology.Devices());
  const Stopwatch watch;
  const Executable executable =
      WithHint(program, [&] { return Executable(topology, program.module, options); });
  Report(executable, watch.Seconds(), out);
  Save(line, executable);
}

LoadedExecutable CompileOrLoad(const CommandLine& line, const Program& program,
                               const Client& client, std::ostream& out) {
  const Stopwatch watch;
  if (!line.load_executable.empty()) {
    LoadedExecutable loaded = LoadedExecutable::Load(client, ReadFile(line.load_executable));
    out << "loaded '" << Printable(loaded.executable().Name()) << "' in " << watch.Seconds() << "\n";
    return loaded;
  }
  std::vector<Device> devices = client.Devices();
  std::erase_if(devices, [](const Device& device) { return !device.is_addressable; });
  const CompileOptions options = OptionsFor(line, program, devices);
  LoadedExecutable compiled =
      WithHint(program, [&] { return LoadedExecutable::Compile(client, program.module, options); });
  if (line.compile_only) {
    Report(compiled.executable(), watch.Seconds(), out);
  } else {
    out << "compiled '" << Printable(compiled.executable().Name()) << "' in " << watch.Seconds() << "\n";
  }
  return compiled;
}

std::vector<std::optional<Input>> ReadInputs(const CommandLine& line) {
  std::vector<std::optional<Input>> inputs;
  for (const InputFile& file : line.inputs) {
    if (file.path.empty()) {
      inputs.emplace_back();
    } else {
      inputs.push_back(Input{ParseNpy(ReadFile(file.path), file.path), file.path,
                             file.type.empty() ? nullptr : TypeOfName(file.type)});
    }
  }
  return inputs;
}

void PrepareFolder(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::kOutput, Cat(folder, " cannot be made: ", error.message()));
  }
}

void Output(const CommandLine& line, const Array& array, const std::string& name,
            std::ostream& out) {
  out << name << ": " << TypeText(*array.type, array.shape) << "\n";
  if (!line.output_dir.empty()) WriteNpy(Cat(line.output_dir, "/", name, ".npy"), array);
}

void RunSigned(const CommandLine& line, const Program& program, const LoadedExecutable& executable,
               size_t platform, const std::vector<std::optional<Input>>& inputs,
               std::ostream& out) {
  const Stopwatch watch;
  const std::vector<Array> results = Run(executable, *program.signature, platform, inputs);
  out << "ran in " << watch.Seconds() << ", with copies\n";
  for (size_t i = 0; i < results.size(); ++i) Output(line, results[i], Cat("output_", i), out);
}

void RunUnsigned(const CommandLine& line, const LoadedExecutable& executable,
                 const std::vector<std::optional<Input>>& inputs, std::ostream& out) {
  std::vector<Input> given;
  for (const std::optional<Input>& input : inputs) {
    if (!input) throw Error(ErrorKind::kUsage, "a module without a signature takes no argument -");
    given.push_back(*input);
  }
  const Stopwatch watch;
  const std::vector<std::vector<Array>> results = Run(executable, given);
  out << "ran in " << watch.Seconds() << ", with copies\n";
  for (size_t device = 0; device < results.size(); ++device) {
    for (size_t i = 0; i < results[device].size(); ++i) {
      const std::string suffix = results.size() > 1 ? Cat(".device_", device) : "";
      Output(line, results[device][i], Cat("output_", i, suffix), out);
    }
  }
}

void CompileAndRun(const CommandLine& line, Plugin& plugin, std::ostream& out) {
  Program program;
  if (!line.module.empty()) program = Program::Parse(ReadFile(line.module));
  if (!line.topology.empty()) return CompileForTopology(line, program, plugin, out);
  // what is wrong with files shows before devices are taken
  const std::vector<std::optional<Input>> inputs = ReadInputs(line);
  PrepareFolder(line.output_dir);
  const Client client(plugin, line.options);
  const size_t platform = PlatformOf(line, program, client.Platform());
  const LoadedExecutable executable = CompileOrLoad(line, program, client, out);
  Save(line, executable.executable());
  if (line.compile_only) return;
  if (program.signature) {
    RunSigned(line, program, executable, platform, inputs, out);
  } else {
    RunUnsigned(line, executable, inputs, out);
  }
}

void WithPlugin(const CommandLine& line, std::ostream& out) {
  const std::unique_ptr<Plugin> plugin = Plugin::Load(line.plugin);
  if (line.list_devices) {
    ListDevices(line, *plugin, out);
  } else {
    CompileAndRun(line, *plugin, out);
  }
  if (!plugin->cleanup_errors().empty()) {
    throw Error(ErrorKind::kPlugin, plugin->cleanup_errors().front());
  }
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  const auto fail = [&](ErrorKind kind, const char* message) {
    out.flush();
    err << "pjrt_runner: " << message << "\n";
    return static_cast<int>(kind);
  };
  try {
    const CommandLine line = ParseCommandLine(arguments);
    if (line.help) {
      out << kHelp;
    } else if (line.version) {
      PrintVersion(line, out);
    } else if (line.describe) {
      Describe(line, out);
    } else {
      WithPlugin(line, out);
    }
    out.flush();
    if (!out) return fail(ErrorKind::kOutput, "the output cannot be written");
    return 0;
  } catch (const Error& error) {
    return fail(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kInput, "there is not enough memory");
  } catch (const std::exception& error) {  // no function of ours throws another
    return fail(ErrorKind::kPlugin, Cat("an exception of the plugin: ", error.what()).c_str());
  } catch (...) {
    return fail(ErrorKind::kPlugin, "an exception of the plugin");
  }
}

}  // namespace pjrt_runner
