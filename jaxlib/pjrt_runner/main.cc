#include <iostream>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/program.h"

int main(int argc, char** argv) {
  return pjrt_runner::RunProgram(std::vector<std::string>(argv + 1, argv + argc), std::cout,
                                 std::cerr);
}
