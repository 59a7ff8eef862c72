#include "jaxlib/pjrt_runner/compile_options.h"

#include <bit>
#include <cstddef>
#include <string_view>

namespace pjrt_runner {
namespace {

// A message of protocol buffers: its fields are added in order.
class Message {
 public:
  void AddNumber(int field, int64_t value) {
    AddVarint(static_cast<uint64_t>(field) << 3);
    AddVarint(static_cast<uint64_t>(value));
  }

  void AddBytes(int field, std::string_view value) {
    AddVarint(static_cast<uint64_t>(field) << 3 | 2);
    AddVarint(value.size());
    bytes_ += value;
  }

  void AddDouble(int field, double value) {
    AddVarint(static_cast<uint64_t>(field) << 3 | 1);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(bits >> 8 * i & 0xff);
  }

  // Numbers without a field of their own, for packed lists.
  void AddVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// DeviceAssignmentProto: for each partition, the devices of its replicas.
std::string SerializeAssignment(const CompileOptions& options) {
  Message assignment;
  assignment.AddNumber(1, options.num_replicas);
  assignment.AddNumber(2, options.num_partitions);
  const auto partitions = static_cast<size_t>(options.num_partitions);
  for (size_t partition = 0; partition < partitions; ++partition) {
    Message ids;
    for (size_t i = partition; i < options.device_ids.size(); i += partitions) {
      ids.AddVarint(static_cast<uint64_t>(options.device_ids[i]));
    }
    Message devices;
    devices.AddBytes(1, ids.bytes());
    assignment.AddBytes(3, devices.bytes());
  }
  return assignment.bytes();
}

// OptionOverrideProto
std::string SerializeValue(const std::variant<std::string, bool, int64_t, double>& value) {
  Message message;
  if (const auto* text = std::get_if<std::string>(&value)) {
    message.AddBytes(1, *text);
  } else if (const auto* boolean = std::get_if<bool>(&value)) {
    message.AddNumber(2, *boolean);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    message.AddNumber(3, *number);
  } else {
    message.AddDouble(4, std::get<double>(value));
  }
  return message.bytes();
}

}  // namespace

std::string Serialize(const CompileOptions& options) {
  Message build;           // ExecutableBuildOptionsProto
  build.AddNumber(1, -1);  // any device
  build.AddNumber(4, options.num_replicas);
  build.AddNumber(5, options.num_partitions);
  build.AddNumber(6, 1);  // the partitioner makes one program for all devices
  if (!options.device_ids.empty()) build.AddBytes(9, SerializeAssignment(options));
  // The compiler is not to choose shardings of arguments and results; Shardy does where none is
  // given.
  const std::string no = {'\0'};
  build.AddBytes(12, no);
  build.AddBytes(18, no);
  if (options.use_shardy) build.AddNumber(19, 1);
  Message message;
  message.AddBytes(3, build.bytes());
  for (const auto& [name, value] : options.overrides) {
    Message entry;
    entry.AddBytes(1, name);
    entry.AddBytes(2, SerializeValue(value));
    message.AddBytes(7, entry.bytes());
  }
  return message.bytes();
}

}  // namespace pjrt_runner
