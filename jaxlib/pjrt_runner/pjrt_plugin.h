// A PJRT plugin: a shared library that compiles and runs programs on a kind of device.

#ifndef JAXLIB_PJRT_RUNNER_PJRT_PLUGIN_H_
#define JAXLIB_PJRT_RUNNER_PJRT_PLUGIN_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jaxlib/pjrt_runner/error.h"
#include "pjrt_c_api.h"

namespace pjrt_runner {

// The argument of a function of the API, with all fields zero but the size.
//
// A plugin newer than our header has fields that were added since, and insists on a struct with
// room for them. They are at the end, and zero means that they are not given: so there is room,
// with zeros.
template <typename T>
struct Args : T {
  Args() : T() { this->struct_size = sizeof(Args); }

  std::byte newer[256] = {};
};

// An error that the plugin returned.
class PluginError : public Error {
 public:
  PluginError(PJRT_Error_Code code, const std::string& message)
      : Error(ErrorKind::kPlugin, message), code_(code) {}

  PJRT_Error_Code code() const { return code_; }

 private:
  PJRT_Error_Code code_;
};

// An option of a client or topology. Its kind is that of PJRT_NamedValue.
using OptionValue = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using Options = std::vector<std::pair<std::string, OptionValue>>;

// Points into the options.
std::vector<PJRT_NamedValue> NamedValues(const Options& options);
// "7", "[1,2]", "text"
std::string ValueText(const PJRT_NamedValue& value);

// Calls a function of the API by its name: PJRT_CALL(plugin, PJRT_Client_Compile, args).
#define PJRT_CALL(plugin, function, args) (plugin).Call(&PJRT_Api::function, #function, (args))

class Plugin {
 public:
  // Loads and initializes it. Throws an Error.
  static std::unique_ptr<Plugin> Load(const std::string& path);
  Plugin(const Plugin&) = delete;

  const std::string& path() const { return path_; }
  int major_version() const { return api_->pjrt_api_version.major_version; }
  int minor_version() const { return api_->pjrt_api_version.minor_version; }

  // Throws a PluginError where it returns one, and an Error where there is no such function.
  template <typename Function, typename T>
  void Call(Function* PJRT_Api::* function, const char* name, T& args) const {
    Check(Find(function, name)(&args), name);
  }

  template <typename Function>
  bool Has(Function* PJRT_Api::* function) const {
    const auto* start = reinterpret_cast<const std::byte*>(api_);
    const auto* end = reinterpret_cast<const std::byte*>(&(api_->*function) + 1);
    return static_cast<size_t>(end - start) <= api_->struct_size && api_->*function != nullptr;
  }

  // Waits for an event, destroys it, and throws an Error where it has one. `what` says what happens
  // then.
  void Await(PJRT_Event* event, const char* what) const;

  // What the plugin says of itself: "xla_version" and so on.
  std::vector<std::pair<std::string, std::string>> Attributes() const;

  // Errors of functions that free something, which nobody else can be told of.
  const std::vector<std::string>& cleanup_errors() const { return cleanup_errors_; }
  void NoteCleanupError(const std::string& message) { cleanup_errors_.push_back(message); }

 private:
  Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}

  template <typename Function>
  Function* Find(Function* PJRT_Api::* function, const char* name) const {
    if (!Has(function)) FailMissing(name);
    return api_->*function;
  }

  [[noreturn]] void FailMissing(const char* name) const;
  // Throws an Error, and frees the plugin's, if there is one.
  void Check(PJRT_Error* error, const char* name) const;
  void Free(PJRT_Error* error) const;

  const std::string path_;
  const PJRT_Api* const api_;
  std::vector<std::string> cleanup_errors_;
};

// Owns an object of the API, which a function of the API frees.
template <typename T, typename DestroyArgs, T* DestroyArgs::* field,
          PJRT_Error* (*PJRT_Api::*destroy)(DestroyArgs*)>
class Handle {
 public:
  Handle() = default;
  // `name` is that of `destroy`.
  Handle(Plugin& plugin, T* object, const char* name)
      : plugin_(&plugin), object_(object), name_(name) {}
  Handle(Handle&& other) noexcept
      : plugin_(other.plugin_),
        object_(std::exchange(other.object_, nullptr)),
        name_(other.name_) {}
  Handle& operator=(Handle&& other) noexcept {
    Reset();
    plugin_ = other.plugin_;
    object_ = std::exchange(other.object_, nullptr);
    name_ = other.name_;
    return *this;
  }
  ~Handle() { Reset(); }

  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

  void Reset() noexcept {
    if (object_ == nullptr) return;
    try {
      Args<DestroyArgs> args;
      args.*field = std::exchange(object_, nullptr);
      plugin_->Call(destroy, name_, args);
    } catch (const std::exception& error) {
      plugin_->NoteCleanupError(error.what());
    }
  }

 private:
  Plugin* plugin_ = nullptr;
  T* object_ = nullptr;
  const char* name_ = "";
};

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_PJRT_PLUGIN_H_
