#include "jaxlib/pjrt_runner/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "jaxlib/pjrt_runner/error.h"

namespace pjrt_runner {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

std::string Reason() { return std::strerror(errno); }

}  // namespace

std::string ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(path, " cannot be read: it is a folder");
  }
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) throw InputError(path, " cannot be read: ", Reason());
  std::string content;
  // in large parts, without asking for the size first: it may be a pipe
  size_t part = size_t{1} << 16;
  while (true) {
    const size_t start = content.size();
    content.resize(start + part);
    const size_t count = std::fread(content.data() + start, 1, part, file.get());
    content.resize(start + count);
    if (count < part) break;
    if (part < size_t{1} << 28) part *= 2;
  }
  if (std::ferror(file.get())) throw InputError(path, " cannot be read: ", Reason());
  return content;
}

void WriteFile(const std::string& path, std::string_view head, std::string_view body) {
  const std::string partial = path + ".partial";
  const auto fail = [&] {
    const Error error(ErrorKind::kOutput, Cat(path, " cannot be written: ", Reason()));
    std::remove(partial.c_str());
    throw error;
  };
  File file(std::fopen(partial.c_str(), "wb"));
  if (file == nullptr) fail();
  for (const std::string_view part : {head, body}) {
    if (part.empty()) continue;  // which may be at null
    if (std::fwrite(part.data(), 1, part.size(), file.get()) != part.size()) fail();
  }
  // what the system only notices when it writes, such as a full disk
  if (std::fflush(file.get()) != 0) fail();
  if (std::fclose(file.release()) != 0) fail();
  if (std::rename(partial.c_str(), path.c_str()) != 0) fail();
}

}  // namespace pjrt_runner
