// Feeds a fuzz target: the files of a corpus, then inputs mutated from them. A plain program, for toolchains
// without libFuzzer; the same seed gives the same inputs.
//
//   target [-runs=N] [FILE...]       FUZZ_SEED: the seed, 1 by default

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kLongest = 4096;

std::string KeptPath() {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  return std::string(folder != nullptr ? folder : ".") + "/last_input";
}

// The input is on disk while it runs, so that a crash leaves it there.
void Run(const Input& input, std::FILE* kept) {
  if (kept != nullptr) {
    std::rewind(kept);
    if (!input.empty()) std::fwrite(input.data(), 1, input.size(), kept);
    std::fflush(kept);
    if (ftruncate(fileno(kept), static_cast<off_t>(input.size())) != 0) std::abort();
  }
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

Input Mutate(const std::vector<Input>& corpus, std::mt19937_64& random) {
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Input input = corpus[below(corpus.size())];
  const std::size_t changes = 1 + below(8);
  for (std::size_t i = 0; i < changes; ++i) {
    switch (below(6)) {
      case 0:  // one bit
        if (!input.empty()) input[below(input.size())] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1: {  // a byte that often matters
        static constexpr std::uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
        if (!input.empty()) input[below(input.size())] = kEdges[below(6)];
        break;
      }
      case 2:  // more
        if (input.size() < kLongest) {
          const Input more(1 + below(16), static_cast<std::uint8_t>(random()));
          input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1)),
                       more.begin(), more.end());
        }
        break;
      case 3:  // less
        if (!input.empty()) {
          const std::size_t from = below(input.size());
          const std::size_t count = 1 + below(input.size() - from);
          input.erase(input.begin() + static_cast<std::ptrdiff_t>(from),
                      input.begin() + static_cast<std::ptrdiff_t>(from + count));
        }
        break;
      case 4: {  // the head of one, the tail of another
        const Input& other = corpus[below(corpus.size())];
        input.resize(below(input.size() + 1));
        if (!other.empty()) {
          input.insert(input.end(),
                       other.begin() + static_cast<std::ptrdiff_t>(below(other.size())),
                       other.end());
        }
        break;
      }
      default: {  // a word
        if (input.size() >= 8) {
          const std::uint64_t word = random() >> below(64);
          std::memcpy(input.data() + below(input.size() - 7), &word, sizeof word);
        }
        break;
      }
    }
  }
  if (input.size() > kLongest) input.resize(kLongest);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  long runs = 0;
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("-runs=", 0) == 0) {
      runs = std::stol(argument.substr(6));
      continue;
    }
    std::ifstream file(argument, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", argument.c_str());
      return 2;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::FILE* kept = std::fopen(KeptPath().c_str(), "wb");
  for (const Input& input : corpus) Run(input, kept);
  corpus.emplace_back();
  corpus.emplace_back(64, std::uint8_t{0});
  const char* seed = std::getenv("FUZZ_SEED");
  std::mt19937_64 random(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1);
  for (long i = 0; i < runs; ++i) {
    const Input input = Mutate(corpus, random);
    Run(input, kept);
    // some of what was made is made further from
    if (i % 64 == 0 && corpus.size() < 4096) corpus.push_back(input);
  }
  if (kept != nullptr) {
    std::fclose(kept);
    std::remove(KeptPath().c_str());
  }
  std::printf("%zu inputs and %ld made from them\n", corpus.size(), runs);
  return 0;
}
