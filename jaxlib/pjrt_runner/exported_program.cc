#include "jaxlib/pjrt_runner/exported_program.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/flatbuffer.h"

namespace pjrt_runner {
namespace {

// Slots of the tables, in the order of their declarations. Those of tables that are not read are
// left out.
enum ExportedSlot {
  kName = 1,
  kInAvals = 3,
  kOutAvals = 5,
  kOldNumDevices = 6,
  kInShardings = 7,
  kOutShardings = 8,
  kPlatforms = 9,
  kOrderedEffects = 10,
  kDisabledChecks = 12,
  kModule = 13,
  kConvention = 14,
  kKept = 15,
  kGlobalConstants = 16,
  kNumDevices = 18,
  kUniqueAvals = 19,
  kUniqueMeshes = 20,
  kUniqueShardings = 21,
  kInAvalNumbers = 22,
  kOutAvalNumbers = 23,
  kInShardingNumbers = 24,
  kOutShardingNumbers = 25,
};
enum AvalSlot { kAvalKind, kAvalShape, kAvalType, kAvalMemory };
enum ShardingSlot { kShardingKind, kShardingHlo, kShardingNamed };
enum NamedSlot { kNamedMesh, kNamedSpec, kNamedMemory, kNamedMeshNumber };
enum MeshSlot { kMeshSizes, kMeshNames };
enum SpecSlot { kSpecPartitions, kSpecReduced, kSpecUnreduced };

constexpr int kHostMemory = 2;
constexpr int kFloat0 = 22;
// Random keys, and how many uint32 each has.
struct KeyType {
  int number;
  int64_t words;
};
constexpr KeyType kKeys[] = {{27, 2}, {28, 4}, {29, 4}};

constexpr char kSymbolicRemedy[] =
    ", and plugins compile for given sizes: export the function for those that you want to run it "
    "with";

constexpr std::string_view kMark = "crc32:";
constexpr size_t kMaxDimensionText = 2000;
constexpr size_t kMaxCopied = size_t{1} << 28;

template <typename... Parts>
[[noreturn]] void Damaged(const Parts&... what) {
  throw InputError("damaged exported program: ", what...);
}

uint32_t Crc32(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

// The flatbuffer, without the checksum that may follow it.
std::string_view WithoutChecksum(std::string_view bytes) {
  const size_t tail = kMark.size() + 4;
  if (bytes.size() < tail || bytes.substr(bytes.size() - tail, kMark.size()) != kMark) return bytes;
  uint32_t stored = 0;
  for (size_t i = 4; i-- > 0;) {
    stored = stored << 8 | static_cast<uint8_t>(bytes[bytes.size() - 4 + i]);
  }
  bytes.remove_suffix(tail);
  if (Crc32(bytes) != stored) Damaged("its checksum is wrong");
  return bytes;
}

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int64_t ParseSize(const std::string& text) {
  uint64_t size = 0;
  for (const char digit : text) {
    if (size > (INT64_MAX - 9) / 10) Damaged("a dimension of size ", text.substr(0, 40));
    size = 10 * size + static_cast<uint64_t>(digit - '0');
  }
  return static_cast<int64_t>(size);
}

// What a dimension with variables can be written with: "2*b + floordiv(c, 3)".
void CheckSymbolic(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("_+-*(),^ ").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (text.empty() || text.size() > kMaxDimensionText || !plain) {
    Damaged("a dimension '", text.substr(0, 40), "', which is no size");
  }
}

Value ReadAval(const FlatTable& table) {
  if (table.Number<int8_t>(kAvalKind) != 0) {
    Damaged("a type of the unknown kind ", +table.Number<int8_t>(kAvalKind));
  }
  const int number = table.Number<int8_t>(kAvalType);
  Value value = {TypeOfExported(number == kFloat0 ? 0 : number), {}, "", "", std::nullopt};
  const std::vector<std::string> dimensions = table.Strings(kAvalShape);
  const bool symbolic = !std::all_of(dimensions.begin(), dimensions.end(), IsNumber);
  for (const std::string& text : dimensions) {
    if (!IsNumber(text)) CheckSymbolic(text);
    if (symbolic) {
      value.symbolic += value.symbolic.empty() ? text : ", " + text;
    } else {
      value.shape.push_back(ParseSize(text));
    }
  }
  for (const KeyType& key : kKeys) {
    if (key.number != number) continue;
    value.type = TypeOfName("uint32");
    if (!symbolic) value.shape.push_back(key.words);
  }
  if (value.type == nullptr)
    throw InputError("the exported program has the unknown dtype ", number);
  if (!symbolic) ByteSize(*value.type, value.shape);
  const int memory = table.Number<int8_t>(kAvalMemory);
  if (memory < 0 || memory > 3) Damaged("a memory space with the unknown number ", memory);
  if (memory == kHostMemory) value.memory_kind = "pinned_host";
  return value;
}

using Mesh = std::vector<MeshAxis>;

Mesh ReadMesh(const FlatTable& table) {
  const std::vector<uint32_t> sizes = table.Numbers<uint32_t>(kMeshSizes);
  std::vector<std::string> names = table.Strings(kMeshNames);
  if (sizes.size() != names.size()) {
    Damaged("a mesh with ", sizes.size(), " sizes and ", names.size(), " names");
  }
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) mesh.push_back({std::move(names[i]), sizes[i]});
  return mesh;
}

// The bytes that a copy takes, besides the object itself.
size_t MemoryOf(const Mesh& mesh) {
  size_t size = mesh.size() * sizeof(MeshAxis);
  for (const MeshAxis& axis : mesh) size += axis.name.size();
  return size;
}

size_t MemoryOf(const Sharding& sharding) {
  size_t size = MemoryOf(sharding.mesh) + sharding.memory_kind.size();
  for (const std::vector<size_t>& axes : sharding.partitions) {
    size += sizeof(axes) + axes.size() * sizeof(size_t);
  }
  return size;
}

// Without a sharding, which the types in a list do not have.
size_t MemoryOf(const Value& value) {
  return value.shape.size() * sizeof(int64_t) + value.symbolic.size();
}

// Copies elements of a program's lists by their numbers. A short file could refer to a long one
// often: all copies together have a limit.
class Copies {
 public:
  template <typename T>
  T Take(const std::vector<T>& values, size_t number, const char* what) {
    if (number >= values.size()) Damaged("it refers to ", what, " ", number, " of ", values.size());
    const size_t size = MemoryOf(values[number]);
    if (size > left_) Damaged("its types and shardings take more than ", kMaxCopied, " bytes");
    left_ -= size;
    return values[number];
  }

 private:
  size_t left_ = kMaxCopied;
};

Sharding ReadNamed(const FlatTable& table, const std::vector<Mesh>& meshes, Copies& copies) {
  const std::optional<FlatTable> own = table.Table(kNamedMesh);
  Sharding sharding;
  sharding.mesh =
      own ? ReadMesh(*own)
          : copies.Take(meshes, table.Number<uint32_t>(kNamedMeshNumber), "mesh");
  sharding.memory_kind = table.Bytes(kNamedMemory);
  const std::optional<FlatTable> spec = table.Table(kNamedSpec);
  if (!spec) Damaged("the spec of a sharding is missing");
  if (!spec->Strings(kSpecUnreduced).empty()) {
    throw InputError(
        "the exported program has arguments or results that are still to be summed over devices"
        " (unreduced): sum them within the function");
  }
  for (const FlatTable& partition : spec->Tables(kSpecPartitions)) {
    std::vector<size_t>& axes = sharding.partitions.emplace_back();
    for (const std::string& name : partition.Strings(0)) {
      const auto found = std::find_if(sharding.mesh.begin(), sharding.mesh.end(),
                                      [&](const MeshAxis& axis) { return axis.name == name; });
      if (found == sharding.mesh.end()) Damaged("a sharding over an axis that its mesh lacks");
      axes.push_back(static_cast<size_t>(found - sharding.mesh.begin()));
    }
  }
  return sharding;
}

// Shardings, of which a program has a list of different ones; earlier ones have one for each value.
class Shardings {
 public:
  Shardings(const FlatTable& table, int64_t devices, Copies& copies)
      : table_(table), devices_(devices), copies_(copies) {
    listed_ = table.Has(kUniqueShardings) || table.Has(kInShardingNumbers);
    std::vector<Mesh> meshes;
    for (const FlatTable& mesh : table.Tables(kUniqueMeshes)) meshes.push_back(ReadMesh(mesh));
    for (const FlatTable& named : table.Tables(kUniqueShardings)) {
      unique_.push_back(ReadNamed(named, meshes, copies_));
    }
  }

  std::vector<std::optional<Sharding>> Read(int numbers, int old) const {
    std::vector<std::optional<Sharding>> shardings;
    if (listed_) {
      for (const uint32_t number : table_.Numbers<uint32_t>(numbers)) {
        if (number == 0) {
          shardings.emplace_back();
        } else {
          shardings.emplace_back(copies_.Take(unique_, number - 1, "sharding"));
        }
      }
      return shardings;
    }
    for (const FlatTable& sharding : table_.Tables(old)) {
      if (const std::optional<FlatTable> named = sharding.Table(kShardingNamed)) {
        shardings.emplace_back(ReadNamed(*named, {}, copies_));
      } else if (devices_ > 1 && !sharding.Bytes(kShardingHlo).empty()) {
        throw InputError(
            "the exported program has shardings in a form of before March 2026: export it again");
      } else {
        shardings.emplace_back();
      }
    }
    return shardings;
  }

 private:
  const FlatTable& table_;
  const int64_t devices_;
  Copies& copies_;
  bool listed_;
  std::vector<Sharding> unique_;
};

std::vector<Value> ReadValues(const FlatTable& table, const std::vector<Value>& unique,
                              const Shardings& shardings, Copies& copies, bool results) {
  std::vector<Value> values;
  const int numbers = results ? kOutAvalNumbers : kInAvalNumbers;
  if (table.Has(numbers)) {
    for (const uint32_t number : table.Numbers<uint32_t>(numbers)) {
      values.push_back(copies.Take(unique, number, "type"));
    }
  } else {
    for (const FlatTable& aval : table.Tables(results ? kOutAvals : kInAvals)) {
      values.push_back(ReadAval(aval));
    }
  }
  std::vector<std::optional<Sharding>> own = shardings.Read(
      results ? kOutShardingNumbers : kInShardingNumbers, results ? kOutShardings : kInShardings);
  if (own.size() != values.size()) {
    Damaged(values.size(), results ? " results" : " arguments", ", but ", own.size(), " shardings");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].sharding = std::move(own[i]);
    if (values[i].sharding && !values[i].sharding->memory_kind.empty()) {
      values[i].memory_kind = values[i].sharding->memory_kind;
    }
    if (values[i].memory_kind == "device") values[i].memory_kind.clear();  // the default
  }
  return values;
}

std::vector<size_t> ReadKept(const FlatTable& table, size_t arguments) {
  std::vector<size_t> kept;
  for (const uint16_t index : table.Numbers<uint16_t>(kKept)) {
    if (index >= arguments || (!kept.empty() && index <= kept.back())) {
      Damaged("the arguments that its module takes are not among its ", arguments,
              ", or not in order");
    }
    kept.push_back(index);
  }
  return kept;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += text.empty() ? part : ", " + part;
  return text;
}

void CheckValue(const Value& value, int64_t devices, const std::string& what) {
  if (!value.symbolic.empty()) {
    throw InputError(what, " has the type ", TypeText(value), ", with symbolic dimensions",
                     kSymbolicRemedy);
  }
  if (value.sharding) {
    CheckSharding(*value.sharding, value.shape, devices, what);
  } else if (devices > 1 && !value.shape.empty()) {
    throw InputError(
        what, ", ", TypeText(value), ", has no sharding over the ", devices,
        " devices of the program, and the compiler does not tell which one it chooses: give it one"
        " (in_shardings, out_shardings), P() for whole arrays on each device");
  }
}

// The platforms of jax.export, by what plugins call themselves.
std::string_view ExportName(std::string_view platform) {
  if (platform == "gpu" || platform == "nvidia") return "cuda";
  return platform;
}

}  // namespace

Slice Value::SliceOn(int64_t device) const {
  return sharding ? SliceOf(*sharding, shape, device) : Slice{Shape(shape.size()), shape};
}

std::string TypeText(const Value& value) {
  if (!value.symbolic.empty()) return Cat(value.type->name, "[", value.symbolic, "]");
  return TypeText(*value.type, value.shape);
}

bool IsMlir(std::string_view bytes) {
  if (bytes.starts_with("ML\xefR")) return true;
  // Text has no zeros, and a flatbuffer has many.
  return !bytes.empty() && bytes.find('\0') == std::string_view::npos;
}

ExportedProgram ParseExported(std::string_view bytes) {
  FlatBuffer buffer(WithoutChecksum(bytes));
  const FlatTable table = buffer.Root();
  ExportedProgram program;
  program.name = table.Bytes(kName);
  program.module = table.Bytes(kModule);
  if (program.name.empty() || program.module.empty()) Damaged("it has no name or no module");
  program.calling_convention = table.Number<uint16_t>(kConvention);
  program.uses_global_constants = table.Number<uint8_t>(kGlobalConstants) != 0;
  program.platforms = table.Strings(kPlatforms);
  if (program.platforms.empty()) Damaged("it has no platforms");
  program.num_devices = table.Number<uint32_t>(kNumDevices);
  if (program.num_devices == 0) program.num_devices = table.Number<int16_t>(kOldNumDevices);
  if (program.num_devices <= 0) Damaged("it is for ", program.num_devices, " devices");
  for (const FlatTable& effect : table.Tables(kOrderedEffects)) {
    program.ordered_effects.emplace_back(effect.Bytes(0));
  }
  program.any_platform = false;
  for (const FlatTable& check : table.Tables(kDisabledChecks)) {
    if (check.Number<int8_t>(0) == 0) program.any_platform = true;
  }
  Copies copies;
  const Shardings shardings(table, program.num_devices, copies);
  std::vector<Value> unique;
  for (const FlatTable& aval : table.Tables(kUniqueAvals)) unique.push_back(ReadAval(aval));
  program.arguments = ReadValues(table, unique, shardings, copies, false);
  program.results = ReadValues(table, unique, shardings, copies, true);
  program.kept_arguments = ReadKept(table, program.arguments.size());
  return program;
}

void CheckRunnable(const ExportedProgram& program) {
  if (program.calling_convention < 9 || program.calling_convention > 10) {
    throw InputError("the program '", program.name, "' has version ", program.calling_convention,
                     " of the calling convention; 9 and 10 can be run. Export it again");
  }
  if (!program.ordered_effects.empty()) {
    throw InputError("the program '", program.name, "' has ordered effects (",
                     Join(program.ordered_effects),
                     "), whose tokens PJRT has no arrays for: export it without them");
  }
  for (const size_t i : program.kept_arguments) {
    CheckValue(program.arguments[i], program.num_devices, Cat("argument ", i));
  }
  for (size_t i = 0; i < program.results.size(); ++i) {
    CheckValue(program.results[i], program.num_devices, Cat("result ", i));
  }
  // a program that calls another one with symbolic dimensions
  if (program.uses_global_constants && !program.TakesPlatform()) {
    throw InputError("the program '", program.name, "' has symbolic dimensions within",
                     kSymbolicRemedy);
  }
}

size_t PlatformIndex(const ExportedProgram& program, std::string_view platform) {
  const std::vector<std::string>& platforms = program.platforms;
  for (const std::string_view name : {platform, ExportName(platform)}) {
    const auto found = std::find(platforms.begin(), platforms.end(), name);
    if (found != platforms.end()) return static_cast<size_t>(found - platforms.begin());
  }
  if (program.any_platform && !program.TakesPlatform()) return 0;
  throw InputError("the program '", program.name, "' is for the platforms ", Join(platforms),
                   ", and the plugin's is ", platform,
                   ": export it for that one (platforms=[...]),"
                   " or name the one to run it as (--platform)");
}

std::string Describe(const ExportedProgram& program) {
  std::string text = Cat("program '", program.name, "' for ", Join(program.platforms), ", ",
                         program.num_devices, program.num_devices == 1 ? " device" : " devices",
                         ", calling convention ", program.calling_convention, "\n");
  const auto add = [&](const char* what, size_t i, const Value& value, bool used) {
    text += Cat("  ", what, " ", i, ": ", TypeText(value));
    if (value.sharding) text += Cat(" ", ShardingText(*value.sharding));
    if (!value.memory_kind.empty()) text += Cat(" in ", value.memory_kind);
    text += used ? "\n" : " (not used)\n";
  };
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const std::vector<size_t>& kept = program.kept_arguments;
    add("argument", i, program.arguments[i], std::binary_search(kept.begin(), kept.end(), i));
  }
  for (size_t i = 0; i < program.results.size(); ++i) add("result", i, program.results[i], true);
  if (!program.ordered_effects.empty()) {
    text += Cat("  ordered effects: ", Join(program.ordered_effects), "\n");
  }
  return Printable(text);
}

}  // namespace pjrt_runner
