#include "jaxlib/pjrt_runner/pjrt_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

namespace pjrt_runner {
namespace {

const char* CodeName(PJRT_Error_Code code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  const auto number = static_cast<size_t>(code);
  return number < std::size(kNames) ? kNames[number] : "an unknown code";
}

template <typename... Parts>
Error LoadError(const Parts&... parts) {
  return Error(ErrorKind::kLoad, Cat(parts...));
}

const PJRT_Api* LoadApi(const std::string& path) {
  // without a slash the system would look in its own folders, and not in this one
  const std::string full = path.find('/') == std::string::npos ? "./" + path : path;
  std::error_code ignored;
  if (!std::filesystem::exists(full, ignored)) throw LoadError("there is no plugin ", path);
  // It stays loaded: plugins start threads and are not made for being unloaded.
  void* const library = dlopen(full.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw LoadError("the plugin cannot be loaded: ", dlerror());
  using GetApi = const PJRT_Api*();
  auto* const get_api = reinterpret_cast<GetApi*>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    throw LoadError(path, " is not a PJRT plugin: it has no function GetPjrtApi");
  }
  const PJRT_Api* const api = get_api();
  if (api == nullptr) throw LoadError(path, " has no PJRT API: its GetPjrtApi returns null");
  return api;
}

void CheckVersion(const std::string& path, const PJRT_Api& api) {
  // Only what every version of the API starts with may be read before.
  const size_t start = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (api.struct_size < start) {
    throw LoadError(path, " has a PJRT API of ", api.struct_size, " bytes, which is none");
  }
  const int major = api.pjrt_api_version.major_version;
  if (major != PJRT_API_MAJOR) {
    throw LoadError(path, " has version ", major, ".", api.pjrt_api_version.minor_version,
                    " of the PJRT API, and this program is for version ", PJRT_API_MAJOR,
                    ": use a runner of the plugin's time");
  }
}

}  // namespace

std::vector<PJRT_NamedValue> NamedValues(const Options& options) {
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, option] : options) {
    // No `Args`: a plugin knows where the next one is by the size that it was compiled with.
    PJRT_NamedValue& value = values.emplace_back(PJRT_NamedValue());
    value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    value.name = name.data();
    value.name_size = name.size();
    value.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&option)) {
      value.type = PJRT_NamedValue_kString;
      value.string_value = text->c_str();
      value.value_size = text->size();
    } else if (const auto* number = std::get_if<int64_t>(&option)) {
      value.type = PJRT_NamedValue_kInt64;
      value.int64_value = *number;
    } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&option)) {
      value.type = PJRT_NamedValue_kInt64List;
      value.int64_array_value = numbers->data();
      value.value_size = numbers->size();
    } else if (const auto* real = std::get_if<float>(&option)) {
      value.type = PJRT_NamedValue_kFloat;
      value.float_value = *real;
    } else {
      value.type = PJRT_NamedValue_kBool;
      value.bool_value = std::get<bool>(option);
    }
  }
  return values;
}

std::string ValueText(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return std::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      std::string text = "[";
      for (size_t i = 0; i < value.value_size; ++i) {
        text += Cat(i == 0 ? "" : ",", value.int64_array_value[i]);
      }
      return text + "]";
    }
    case PJRT_NamedValue_kFloat:
      return Cat(value.float_value);
    case PJRT_NamedValue_kBool:
      return value.bool_value ? "true" : "false";
  }
  return "(of an unknown type)";
}

std::unique_ptr<Plugin> Plugin::Load(const std::string& path) {
  const PJRT_Api* const api = LoadApi(path);
  CheckVersion(path, *api);
  std::unique_ptr<Plugin> plugin(new Plugin(path, api));
  if (plugin->Has(&PJRT_Api::PJRT_Plugin_Initialize)) {  // added later
    Args<PJRT_Plugin_Initialize_Args> args;
    PJRT_CALL(*plugin, PJRT_Plugin_Initialize, args);
  }
  return plugin;
}

void Plugin::FailMissing(const char* name) const {
  throw LoadError(path_, " has no function ", name, " (PJRT API ", major_version(), ".",
                  minor_version(), "), which this needs: use a newer plugin");
}

void Plugin::Check(PJRT_Error* error, const char* name) const {
  if (error == nullptr) return;
  Args<PJRT_Error_GetCode_Args> code;
  code.error = error;
  Args<PJRT_Error_Message_Args> message;
  message.error = error;
  std::string text;
  code.code = PJRT_Error_Code_UNKNOWN;
  if (Has(&PJRT_Api::PJRT_Error_Message)) {
    api_->PJRT_Error_Message(&message);
    if (message.message != nullptr) text.assign(message.message, message.message_size);
  }
  if (Has(&PJRT_Api::PJRT_Error_GetCode)) {
    Free(api_->PJRT_Error_GetCode(&code));
  }
  Free(error);
  throw PluginError(code.code, Cat(name, " failed with ", CodeName(code.code), ": ", text));
}

void Plugin::Free(PJRT_Error* error) const {
  if (error == nullptr || !Has(&PJRT_Api::PJRT_Error_Destroy)) return;
  Args<PJRT_Error_Destroy_Args> args;
  args.error = error;
  api_->PJRT_Error_Destroy(&args);
}

void Plugin::Await(PJRT_Event* event, const char* what) const {
  if (event == nullptr) return;
  Args<PJRT_Event_Destroy_Args> destroy;
  destroy.event = event;
  std::optional<PluginError> failure;
  try {
    Args<PJRT_Event_Await_Args> args;
    args.event = event;
    PJRT_CALL(*this, PJRT_Event_Await, args);
  } catch (const PluginError& error) {
    failure.emplace(error.code(), Cat(what, ": ", error.what()));
  }
  PJRT_CALL(*this, PJRT_Event_Destroy, destroy);
  if (failure) throw *failure;
}

std::vector<std::pair<std::string, std::string>> Plugin::Attributes() const {
  Args<PJRT_Plugin_Attributes_Args> args;
  PJRT_CALL(*this, PJRT_Plugin_Attributes, args);
  std::vector<std::pair<std::string, std::string>> attributes;
  for (size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& value = args.attributes[i];
    attributes.emplace_back(std::string(value.name, value.name_size), ValueText(value));
  }
  return attributes;
}

}  // namespace pjrt_runner
