// The command-line program, as a function.

#ifndef JAXLIB_PJRT_RUNNER_PROGRAM_H_
#define JAXLIB_PJRT_RUNNER_PROGRAM_H_

#include <ostream>
#include <string>
#include <vector>

namespace pjrt_runner {

// Returns the exit status. Throws nothing.
int RunProgram(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_PROGRAM_H_
