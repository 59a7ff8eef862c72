// Programs that jax.export has stored: StableHLO with the types, shardings and platforms of its
// arguments and results, in a flatbuffer.

#ifndef JAXLIB_PJRT_RUNNER_EXPORTED_PROGRAM_H_
#define JAXLIB_PJRT_RUNNER_EXPORTED_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/sharding.h"

namespace pjrt_runner {

// The type of an argument or result.
struct Value {
  const ElementType* type;
  Shape shape;              // empty where it is symbolic
  std::string symbolic;     // the shape as it is written, where it has symbolic dimensions
  std::string memory_kind;  // empty for the device's own memory
  // Absent where the whole array is on every device.
  std::optional<Sharding> sharding;

  Slice SliceOn(int64_t device) const;
};

std::string TypeText(const Value& value);

struct ExportedProgram {
  std::string name;
  int calling_convention;
  std::vector<std::string> platforms;
  int64_t num_devices;
  std::vector<Value> arguments;
  std::vector<Value> results;
  std::vector<size_t> kept_arguments;  // those that the module takes, in order
  std::vector<std::string> ordered_effects;
  bool any_platform;           // its check of the platform was disabled
  bool uses_global_constants;  // the platform's index, or symbolic dimensions
  std::string module;          // a portable artifact of StableHLO

  // Whether the module takes the index of the platform as its first argument.
  bool TakesPlatform() const { return platforms.size() > 1; }
};

// Whether the bytes are MLIR, as text or bytecode, and not an exported program.
bool IsMlir(std::string_view bytes);

// Reads bytes, which may be damaged. Throws an Error of the input.
ExportedProgram ParseExported(std::string_view bytes);

// Throws an Error of the input that says why, and what to do, if such a program cannot be given to
// PJRT.
void CheckRunnable(const ExportedProgram& program);

// The index of a platform, as the plugin calls it, in the program's list. Throws an Error of the
// input if the program is not for it.
size_t PlatformIndex(const ExportedProgram& program, std::string_view platform);

// What the program is, in several lines.
std::string Describe(const ExportedProgram& program);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_EXPORTED_PROGRAM_H_
