// Runs programs on arrays in host memory.

#ifndef JAXLIB_PJRT_RUNNER_RUNNER_H_
#define JAXLIB_PJRT_RUNNER_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/client.h"
#include "jaxlib/pjrt_runner/compile_options.h"
#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/exported_program.h"
#include "jaxlib/pjrt_runner/npy.h"

namespace pjrt_runner {

// A program from a file. Without a signature nothing is known of its arguments and results.
struct Program {
  std::optional<ExportedProgram> signature;
  std::string module;  // StableHLO

  // Throws an Error of the input if it is damaged or cannot be given to PJRT.
  static Program Parse(std::string bytes);
};

// An array of a file: its content, its name for messages, and its type where the user has said it.
struct Input {
  NpyArray array;
  std::string name;
  const ElementType* type = nullptr;
};

// The ids of `count` devices: those that were asked for, or the first ones. Throws an Error of the
// input.
std::vector<int64_t> ChooseDevices(const std::vector<Device>& devices, int64_t count,
                                   const std::vector<int64_t>& wanted);

// Runs a program with a signature and returns its results.
//
// `inputs` has all arguments in order; those that the program does not use may be absent.
// `platform` is the index of the plugin's platform in the program's list. Throws an Error of the
// input if a type or shape is wrong.
std::vector<Array> Run(const LoadedExecutable& executable, const ExportedProgram& signature,
                       size_t platform, const std::vector<std::optional<Input>>& inputs);

// Runs a program without a signature. Every device gets all arrays; returned are the results of
// each.
std::vector<std::vector<Array>> Run(const LoadedExecutable& executable,
                                    const std::vector<Input>& inputs);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_RUNNER_H_
