// Whole files.

#ifndef JAXLIB_PJRT_RUNNER_FILES_H_
#define JAXLIB_PJRT_RUNNER_FILES_H_

#include <string>
#include <string_view>

namespace pjrt_runner {

// Throws an Error of the input if it cannot be read.
std::string ReadFile(const std::string& path);

// The file appears with all of its bytes, or not at all. Throws an Error of the output.
void WriteFile(const std::string& path, std::string_view head, std::string_view body = {});

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_FILES_H_
