// Reads what a fuzzer makes up as exported programs and .npy files: an error, or something that
// holds together.
//
// The first byte of an input chooses what the rest is: the whole file, or changes of one that is in
// order, at places and by bytes that follow.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/exported_program.h"
#include "jaxlib/pjrt_runner/npy.h"
#include "jaxlib/pjrt_runner/sharding.h"
#include "jaxlib/pjrt_runner/tests/exported_writer.h"

namespace pjrt_runner {
namespace {

constexpr size_t kMostBytes = 1 << 16;
constexpr int64_t kMostDevices = 64;

void Check(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::string> MakeSeeds() {
  ExportedSpec sharded;
  sharded.num_devices = 4;
  sharded.mesh = {{"x", 2}, {"y", 2}};
  sharded.arguments = {{10, {"4", "6"}, {{"x"}, {"y"}}, true}, {14, {"4", "6"}, {}, true}};
  sharded.results = {{10, {"8"}, {{"y", "x"}}, true}};
  ExportedSpec symbolic;
  symbolic.arguments = {{10, {"2*b", "c"}}, {27, {"4"}}};
  symbolic.ordered_effects = {"Print"};
  symbolic.platforms = {"cpu", "tpu"};
  const ElementType& type = *TypeOfName("int16");
  std::vector<std::string> seeds = {WriteExported({}), WriteExported(sharded),
                                    WriteExported(symbolic)};
  for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{0, 4}}) {
    seeds.push_back(NpyHeader(type, shape) + std::string(ByteSize(type, shape), '\1'));
  }
  std::string fortran = seeds[3];
  fortran.replace(fortran.find("False"), 5, "True,");
  seeds.push_back(fortran);
  return seeds;
}

std::string MakeFile(const uint8_t* data, size_t size) {
  static const std::vector<std::string> seeds = MakeSeeds();
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t choice = data[0] % (seeds.size() + 1);
  if (choice == seeds.size()) return rest;
  std::string file = seeds[choice];
  for (size_t i = 0; i + 2 < rest.size(); i += 3) {
    const size_t place =
        static_cast<uint8_t>(rest[i]) | static_cast<size_t>(static_cast<uint8_t>(rest[i + 1])) << 8;
    if (place % 16 == 15) {
      file.resize(place % (file.size() + 1));
    } else if (!file.empty()) {
      file[place % file.size()] = rest[i + 2];
    }
  }
  return file;
}

// Cuts an array of this type among the devices and puts it together again.
void CheckParts(const Value& value, int64_t devices) {
  if (ByteSize(*value.type, value.shape) > kMostBytes || devices > kMostDevices) return;
  std::vector<std::byte> data(ByteSize(*value.type, value.shape));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + 1);
  Array whole = {value.type, value.shape, std::vector<std::byte>(data.size())};
  for (int64_t device = 0; device < devices; ++device) {
    const Slice slice = value.SliceOn(device);
    Paste(Cut(*value.type, value.shape, data, slice), slice, whole);
  }
  Check(whole.data == data);
}

void FuzzExported(const std::string& file) {
  try {
    const ExportedProgram program = ParseExported(file);
    Check(!Describe(program).empty());
    Check(program.num_devices > 0 && !program.platforms.empty() && !program.module.empty());
    CheckRunnable(program);
    for (const size_t i : program.kept_arguments) {
      Check(i < program.arguments.size());
      CheckParts(program.arguments[i], program.num_devices);
    }
    for (const Value& result : program.results) CheckParts(result, program.num_devices);
    Check(PlatformIndex(program, "cpu") < program.platforms.size());
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kInput);
  }
}

void FuzzNpy(const std::string& file) {
  try {
    const NpyArray array = ParseNpy(file, "file");
    size_t size = array.size;
    for (const int64_t dimension : array.shape) size *= static_cast<size_t>(dimension);
    Check(array.data.size() == size && !TypeText(array).empty());
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kInput);
  }
}

}  // namespace
}  // namespace pjrt_runner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string file = pjrt_runner::MakeFile(data, size);
  pjrt_runner::IsMlir(file);
  pjrt_runner::FuzzExported(file);
  pjrt_runner::FuzzNpy(file);
  return 0;
}
