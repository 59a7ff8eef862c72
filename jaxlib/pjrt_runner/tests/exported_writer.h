// Makes the bytes of exported programs, with any mistakes that a test wants.

#ifndef JAXLIB_PJRT_RUNNER_TESTS_EXPORTED_WRITER_H_
#define JAXLIB_PJRT_RUNNER_TESTS_EXPORTED_WRITER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pjrt_runner {

// A table of a flatbuffer. What it points to follows it.
class TableWriter {
 public:
  // Appends a value and returns where it starts.
  using Child = std::function<size_t(std::string& out)>;

  template <typename T>
  void Number(int slot, T value) {
    fields_.push_back({slot, Little(value, sizeof(T)), nullptr});
  }

  void Offset(int slot, Child child) {
    fields_.push_back({slot, std::string(4, '\0'), std::move(child)});
  }
  void Bytes(int slot, const std::string& value) { Offset(slot, BytesChild(value)); }
  void Table(int slot, const TableWriter& table) { Offset(slot, TableChild(table)); }

  void Strings(int slot, const std::vector<std::string>& values) {
    std::vector<Child> children;
    for (const std::string& value : values) children.push_back(BytesChild(value));
    Offsets(slot, std::move(children));
  }

  void Tables(int slot, const std::vector<TableWriter>& tables) {
    std::vector<Child> children;
    for (const TableWriter& table : tables) children.push_back(TableChild(table));
    Offsets(slot, std::move(children));
  }

  template <typename T>
  void Numbers(int slot, const std::vector<T>& values) {
    Offset(slot, [values](std::string& out) {
      const size_t start = out.size();
      out += Little(values.size(), 4);
      for (const T value : values) out += Little(value, sizeof(T));
      return start;
    });
  }

  size_t Write(std::string& out) const {
    int slots = 0;
    for (const Field& field : fields_) slots = std::max(slots, field.slot + 1);
    const size_t fields = out.size();
    out += Little(4 + 2 * slots, 2) + std::string(2 + 2 * static_cast<size_t>(slots), '\0');
    const size_t start = out.size();
    out += Little(start - fields, 4);
    std::vector<size_t> places;
    for (const Field& field : fields_) {
      places.push_back(out.size());
      out.replace(fields + 4 + 2 * static_cast<size_t>(field.slot), 2,
                  Little(out.size() - start, 2));
      out += field.number;
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].child) PointTo(out, places[i], fields_[i].child(out));
    }
    return start;
  }

  std::string Finish() const {
    std::string out(4, '\0');
    PointTo(out, 0, Write(out));
    return out;
  }

 private:
  struct Field {
    int slot;
    std::string number;
    Child child;
  };

  template <typename T>
  static std::string Little(T value, size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) {
      bytes += static_cast<char>(static_cast<uint64_t>(value) >> 8 * i & 0xff);
    }
    return bytes;
  }

  static void PointTo(std::string& out, size_t place, size_t target) {
    out.replace(place, 4, Little(target - place, 4));
  }

  static Child BytesChild(const std::string& value) {
    return [value](std::string& out) {
      const size_t start = out.size();
      out += Little(value.size(), 4) + value + '\0';
      return start;
    };
  }

  static Child TableChild(const TableWriter& table) {
    return [table](std::string& out) { return table.Write(out); };
  }

  void Offsets(int slot, std::vector<Child> children) {
    Offset(slot, [children = std::move(children)](std::string& out) {
      const size_t start = out.size();
      out += Little(children.size(), 4) + std::string(4 * children.size(), '\0');
      for (size_t i = 0; i < children.size(); ++i) {
        const size_t target = children[i](out);
        PointTo(out, start + 4 + 4 * i, target);
      }
      return start;
    });
  }

  std::vector<Field> fields_;
};

struct AvalSpec {
  int type;
  std::vector<std::string> shape;
  std::vector<std::vector<std::string>> partitions = {};
  bool sharded = false;  // over `mesh`
};

// What an exported program says. Types are numbered as in the format.
struct ExportedSpec {
  std::string name = "f";
  std::string module = "stub: add 0 1";
  std::vector<AvalSpec> arguments = {{10, {"2", "3"}}, {10, {"2", "3"}}};
  std::vector<AvalSpec> results = {{10, {"2", "3"}}};
  std::vector<uint16_t> kept = {0, 1};
  std::vector<std::string> platforms = {"cpu"};
  std::vector<std::string> ordered_effects = {};
  std::vector<int8_t> disabled_checks = {};
  std::vector<std::pair<std::string, uint32_t>> mesh = {};
  uint32_t num_devices = 1;
  uint16_t calling_convention = 10;
  bool uses_global_constants = false;
};

inline TableWriter AvalTable(const AvalSpec& spec) {
  TableWriter table;
  table.Strings(1, spec.shape);
  table.Number<int8_t>(2, static_cast<int8_t>(spec.type));
  return table;
}

// In the form with lists of different types and shardings.
inline std::string WriteExported(const ExportedSpec& spec) {
  TableWriter table;
  table.Number<uint16_t>(0, 3);
  table.Bytes(1, spec.name);
  table.Strings(9, spec.platforms);
  std::vector<TableWriter> effects;
  for (const std::string& name : spec.ordered_effects) effects.emplace_back().Bytes(0, name);
  table.Tables(10, effects);
  std::vector<TableWriter> checks;
  for (const int8_t kind : spec.disabled_checks) checks.emplace_back().Number<int8_t>(0, kind);
  table.Tables(12, checks);
  table.Bytes(13, spec.module);
  table.Number<uint16_t>(14, spec.calling_convention);
  table.Numbers<uint16_t>(15, spec.kept);
  table.Number<uint8_t>(16, spec.uses_global_constants);
  table.Number<uint32_t>(18, spec.num_devices);
  TableWriter mesh;
  std::vector<uint32_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : spec.mesh) {
    names.push_back(name);
    sizes.push_back(size);
  }
  mesh.Numbers<uint32_t>(0, sizes);
  mesh.Strings(1, names);
  std::vector<TableWriter> avals;
  std::vector<TableWriter> shardings;
  std::vector<uint32_t> aval_numbers[2];
  std::vector<uint32_t> sharding_numbers[2];
  for (const bool results : {false, true}) {
    for (const AvalSpec& aval : results ? spec.results : spec.arguments) {
      aval_numbers[results].push_back(static_cast<uint32_t>(avals.size()));
      avals.push_back(AvalTable(aval));
      if (aval.sharded) {
        std::vector<TableWriter> partitions;
        for (const auto& axes : aval.partitions) partitions.emplace_back().Strings(0, axes);
        TableWriter partition_spec;
        partition_spec.Tables(0, partitions);
        TableWriter& sharding = shardings.emplace_back();
        sharding.Table(1, partition_spec);
        sharding.Number<uint32_t>(3, 0);
      }
      sharding_numbers[results].push_back(aval.sharded ? static_cast<uint32_t>(shardings.size())
                                                       : 0);
    }
  }
  table.Tables(19, avals);
  table.Tables(20, {mesh});
  table.Tables(21, shardings);
  table.Numbers<uint32_t>(22, aval_numbers[0]);
  table.Numbers<uint32_t>(23, aval_numbers[1]);
  table.Numbers<uint32_t>(24, sharding_numbers[0]);
  table.Numbers<uint32_t>(25, sharding_numbers[1]);
  return table.Finish();
}

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_TESTS_EXPORTED_WRITER_H_
