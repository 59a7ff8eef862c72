// The program's arguments.

#ifndef JAXLIB_PJRT_RUNNER_COMMAND_LINE_H_
#define JAXLIB_PJRT_RUNNER_COMMAND_LINE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/compile_options.h"
#include "jaxlib/pjrt_runner/pjrt_plugin.h"

namespace pjrt_runner {

struct InputFile {
  std::string path;  // empty for an argument that is not used
  std::string type;  // of elements that are raw bytes in the file; empty if it is not said
};

struct CommandLine {
  std::set<std::string> flags;  // those that are there
  bool help = false;
  bool version = false;
  bool list_devices = false;
  bool describe = false;
  bool compile_only = false;
  std::string plugin;
  std::string module;
  std::string topology;
  std::string platform;
  std::string load_executable;
  std::string save_executable;
  std::string output_dir;
  std::vector<InputFile> inputs;
  Options options;
  CompileOptions compile;
};

// Throws an Error of the usage, or of an input that options are read from.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments);

extern const char kHelp[];

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_COMMAND_LINE_H_
