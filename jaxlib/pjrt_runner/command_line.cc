#include "jaxlib/pjrt_runner/command_line.h"

#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/files.h"

namespace pjrt_runner {
namespace {

template <typename... Parts>
Error UsageError(const Parts&... parts) {
  return Error(ErrorKind::kUsage, Cat(parts..., "\nSee pjrt_runner --help."));
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Not all C++ libraries have from_chars for these.
std::optional<double> ParseReal(const std::string& text) {
  if (text.empty() || std::string_view("+-.0123456789").find(text[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  try {
    size_t end = 0;
    const double value = std::stod(text, &end);
    if (end == text.size()) return value;
  } catch (const std::logic_error&) {  // no number, or none that a double has
  }
  return std::nullopt;
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> ParseNumbers(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t comma = text.find(',');
    const std::optional<int64_t> number = ParseNumber<int64_t>(text.substr(0, comma));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

struct Setting {
  std::string name;
  std::string type;  // empty if it is not said
  std::string value;
};

// "name=value" or "name:type=value"; "@file" stands for a file's content.
Setting ParseSetting(const std::string& flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--", flag, "=", text, " should be --", flag, "=NAME=VALUE");
  }
  Setting setting = {text.substr(0, equals), "", text.substr(equals + 1)};
  if (const size_t colon = setting.name.find(':'); colon != std::string::npos) {
    setting.type = setting.name.substr(colon + 1);
    setting.name.resize(colon);
    if (setting.type.empty() ||
        setting.type.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos) {
      throw UsageError("--", flag, "=", text, " has no type after the colon");
    }
  }
  if (setting.value.starts_with('@')) {
    setting.value = ReadFile(setting.value.substr(1));
    if (setting.type.empty()) setting.type = "str";
  }
  return setting;
}

// Takes the type that was said, or the first one that the value can be read as. `V` has the
// alternatives.
template <typename V>
class Choice {
 public:
  Choice(const std::string& flag, const Setting& setting) : flag_(flag), setting_(setting) {}

  template <typename T>
  Choice& Try(const char* type, const std::optional<T>& value) {
    types_ += Cat(types_.empty() ? "" : ", ", type);
    if (setting_.type == type && !value) {
      throw UsageError("--", flag_, "=", setting_.name, " should be of the type ", type, ", and '",
                       setting_.value, "' is not");
    }
    if (!chosen_ && value && (setting_.type.empty() || setting_.type == type)) chosen_ = V(*value);
    return *this;
  }

  V Result() const {
    if (!chosen_) {
      throw UsageError("--", flag_, "=", setting_.name, " has the unknown type ", setting_.type,
                       ": there are ", types_);
    }
    return *chosen_;
  }

 private:
  const std::string& flag_;
  const Setting& setting_;
  std::string types_;
  std::optional<V> chosen_;
};

OptionValue ParseOption(const std::string& flag, const Setting& setting) {
  const std::optional<double> real = ParseReal(setting.value);
  return Choice<OptionValue>(flag, setting)
      .Try("bool", ParseBool(setting.value))
      .Try("int", ParseNumber<int64_t>(setting.value))
      .Try("ints", ParseNumbers(setting.value))
      .Try("float", real ? std::optional(static_cast<float>(*real)) : std::nullopt)
      .Try("str", std::optional(setting.value))
      .Result();
}

using Override = std::variant<std::string, bool, int64_t, double>;

Override ParseOverride(const std::string& flag, const Setting& setting) {
  return Choice<Override>(flag, setting)
      .Try("bool", ParseBool(setting.value))
      .Try("int", ParseNumber<int64_t>(setting.value))
      .Try("float", ParseReal(setting.value))
      .Try("str", std::optional(setting.value))
      .Result();
}

// Which of two values a plugin would take is up to it.
template <typename V>
void Add(std::vector<std::pair<std::string, V>>& values, const std::string& flag,
         const std::string& name, const V& value) {
  for (const auto& [other, ignored] : values) {
    if (other == name) throw UsageError("--", flag, "=", name, " is there twice");
  }
  values.emplace_back(name, value);
}

InputFile ParseInput(const std::string& text) {
  if (text == "-") return {};
  const size_t colon = text.find(':');
  InputFile input = {text, ""};
  if (colon != std::string::npos && TypeOfName(text.substr(0, colon)) != nullptr) {
    input = {text.substr(colon + 1), text.substr(0, colon)};
  }
  if (input.path.empty()) throw UsageError("the argument '", text, "' names no file");
  return input;
}

int64_t ParseCount(const std::string& flag, const std::string& text) {
  const std::optional<int64_t> count = ParseNumber<int64_t>(text);
  if (!count || *count < 1 || *count > 1 << 20)
    throw UsageError("--", flag, "=", text, " is no count");
  return *count;
}

// What is done, and the flags that go with it.
struct Mode {
  const char* flag;  // that asks for it
  std::set<std::string> needed;
  std::set<std::string> others;
};

const std::vector<Mode>& Modes() {
  static const std::set<std::string> compiling = {
      "option",  "compile-option", "compile-only", "save-executable", "platform",
      "devices", "replicas",       "partitions",   "partitioner"};
  static const std::vector<Mode> modes = {
      {"help", {}, {}},
      {"version", {}, {"plugin"}},
      {"describe", {"module"}, {}},
      {"list-devices", {"plugin"}, {"topology", "option"}},
      {"topology", {"plugin", "module"}, compiling},
      {"load-executable",
       {"plugin"},
       {"module", "option", "save-executable", "platform", "input", "output-dir"}},
      {"compile-only", {"plugin", "module"}, compiling},
      {"", {"plugin", "module"}, [] {
         std::set<std::string> running = compiling;
         running.insert({"input", "output-dir"});
         return running;
       }()}};
  return modes;
}

// Flags of which each adds to those before.
const std::set<std::string> kRepeatable = {"input", "option", "compile-option"};

// No flag is ignored.
void CheckTogether(const std::set<std::string>& flags) {
  for (const Mode& mode : Modes()) {
    const std::string name = mode.flag;
    if (!name.empty() && !flags.contains(name)) continue;
    for (const std::string& flag : mode.needed) {
      if (flags.contains(flag)) continue;
      throw UsageError(name.empty() ? "" : "--" + name + ": ", "--", flag, " is missing");
    }
    for (const std::string& flag : flags) {
      if (flag == name || mode.needed.contains(flag) || mode.others.contains(flag)) continue;
      throw UsageError("--", flag, flag == "input" ? " (or a file)" : "", " does not go with --",
                       name);
    }
    return;
  }
}

}  // namespace

CommandLine ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  const std::map<std::string, bool*> switches = {
      {"help", &line.help},
      {"version", &line.version},
      {"list-devices", &line.list_devices},
      {"describe", &line.describe},
      {"compile-only", &line.compile_only},
  };
  using Read = std::function<void(const std::string& flag, const std::string& value)>;
  const auto text = [](std::string* to) -> Read {
    return [to](const auto&, const auto& value) { *to = value; };
  };
  const std::map<std::string, Read> with_value = {
      {"plugin", text(&line.plugin)},
      {"module", text(&line.module)},
      {"topology", text(&line.topology)},
      {"platform", text(&line.platform)},
      {"load-executable", text(&line.load_executable)},
      {"save-executable", text(&line.save_executable)},
      {"output-dir", text(&line.output_dir)},
      {"input", [&](const auto&, const auto& value) { line.inputs.push_back(ParseInput(value)); }},
      {"option",
       [&](const auto& flag, const auto& value) {
         const Setting setting = ParseSetting(flag, value);
         Add(line.options, flag, setting.name, ParseOption(flag, setting));
       }},
      {"compile-option",
       [&](const auto& flag, const auto& value) {
         const Setting setting = ParseSetting(flag, value);
         Add(line.compile.overrides, flag, setting.name, ParseOverride(flag, setting));
       }},
      {"devices",
       [&](const auto& flag, const auto& value) {
         const auto ids = ParseNumbers(value);
         if (!ids) throw UsageError("--", flag, "=", value, " should be ids: 0,1");
         line.compile.device_ids = *ids;
       }},
      {"replicas", [&](const auto& flag,
                       const auto& value) { line.compile.num_replicas = ParseCount(flag, value); }},
      {"partitions",
       [&](const auto& flag, const auto& value) {
         line.compile.num_partitions = ParseCount(flag, value);
       }},
      {"partitioner",
       [&](const auto& flag, const auto& value) {
         if (value != "shardy" && value != "gspmd") {
           throw UsageError("--", flag, "=", value, ": there are shardy and gspmd");
         }
         line.compile.use_shardy = value == "shardy";
       }},
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) {
      line.inputs.push_back(ParseInput(argument));
      line.flags.insert("input");
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto found = with_value.find(flag);
    const auto found_switch = switches.find(flag);
    if (found == with_value.end() && found_switch == switches.end()) {
      throw UsageError("there is no flag --", flag);
    }
    if (!line.flags.insert(flag).second && !kRepeatable.contains(flag)) {
      throw UsageError("--", flag, " is there twice");
    }
    if (found_switch != switches.end()) {
      if (equals != std::string::npos) throw UsageError("--", flag, " has no value");
      *found_switch->second = true;
      continue;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    }
    if (value.empty()) throw UsageError("--", flag, " needs a value");
    found->second(flag, value);
  }
  CheckTogether(line.flags);
  return line;
}

const char kHelp[] =
    R"(Runs programs of jax.export, or StableHLO modules, with a PJRT plugin.

  pjrt_runner --plugin=PLUGIN.so --module=FILE [--output-dir=FOLDER] [ARRAY.npy ...]

Files:
  --plugin=FILE           the plugin, a shared library
  --module=FILE           what jax.export has serialized, or a module of StableHLO (text or bytecode)
  --input=FILE            an argument, an .npy file, in the order of the flattened arguments; --input may be left out.
                          - stands for an argument that the program does not use. bfloat16:FILE says of which type
                          raw bytes are (NumPy has no bfloat16, float8, int4); a program of jax.export knows.
  --output-dir=FOLDER     results are written there as output_0.npy, output_1.npy, ...; without it they are only named
  --save-executable=FILE  writes the compiled program, for this version of the plugin and kind of device
  --load-executable=FILE  takes it in place of compiling; with --module its arguments and results are checked.
                          It is machine code: load only your own.

Devices:
  --devices=0,2           the ids of the devices to run on, in the order of the mesh; by default the first ones
  --platform=NAME         the platform to run the program as, where the plugin has another name for itself
  --replicas=N, --partitions=N
                          of a StableHLO module; a program of jax.export knows. All devices get all arrays.
  --partitioner=gspmd     XLA's former partitioner in place of Shardy

Compiling:
  --compile-only          compiles and does not run
  --topology=NAME         compiles for devices that need not be there: v5e:2x2 with libtpu
  --option=NAME=VALUE     an option of the plugin's client or topology. NAME:TYPE=VALUE says the type (bool, int, ints,
                          float, str), otherwise it is the first of these that fits. VALUE may be @FILE.
  --compile-option=NAME=VALUE
                          an option of XLA, as in XLA_FLAGS

Other things to do:
  --list-devices          the plugin's devices (with --topology: of the topology)
  --describe              the arguments and results of the module, without a plugin
  --version               versions of the PJRT API, and of the plugin with --plugin
  --help

Exit status: 0, or 1 if the plugin returns an error, 2 for a wrong command line, 3 for a wrong file or array, 4 if the
plugin cannot be loaded, 5 if a file cannot be written.
)";

}  // namespace pjrt_runner
