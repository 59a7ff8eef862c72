// How a program is compiled, in the form that plugins take.

#ifndef JAXLIB_PJRT_RUNNER_COMPILE_OPTIONS_H_
#define JAXLIB_PJRT_RUNNER_COMPILE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace pjrt_runner {

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // The ids of the devices, those of each replica's partitions one after the other. If empty, the
  // plugin chooses.
  std::vector<int64_t> device_ids;
  bool use_shardy = true;
  // Options of XLA by their names, as in XLA_FLAGS.
  std::vector<std::pair<std::string, std::variant<std::string, bool, int64_t, double>>> overrides;
};

// XLA's CompileOptionsProto.
std::string Serialize(const CompileOptions& options);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_COMPILE_OPTIONS_H_
