// The one kind of exception that this library throws, besides std::bad_alloc.

#ifndef JAXLIB_PJRT_RUNNER_ERROR_H_
#define JAXLIB_PJRT_RUNNER_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace pjrt_runner {

// What is at fault; also the exit status of the program.
enum class ErrorKind {
  kPlugin = 1,  // a call of the plugin returned an error
  kUsage = 2,   // the command line
  kInput = 3,   // a file that was read, or an array that does not fit the program
  kLoad = 4,    // the plugin cannot be loaded, or lacks a function
  kOutput = 5,  // a file cannot be written
};

// Text from a file, without what a terminal would take as a command.
inline std::string Printable(std::string text) {
  unsigned char previous = 0;
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool ascii_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    // These bytes are also within characters of UTF-8, where only 0xc2 before makes them commands.
    const bool c1_control = byte >= 0x80 && byte < 0xa0 && (previous < 0x80 || previous == 0xc2);
    if (ascii_control || c1_control) c = '?';
    previous = static_cast<unsigned char>(c);
  }
  return text;
}

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message)
      : std::runtime_error(Printable(message)), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

template <typename... Parts>
Error InputError(const Parts&... parts) {
  return Error(ErrorKind::kInput, Cat(parts...));
}

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_ERROR_H_
