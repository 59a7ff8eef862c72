#include "jaxlib/pjrt_runner/flatbuffer.h"

#include "jaxlib/pjrt_runner/error.h"

namespace pjrt_runner {
namespace {

constexpr int kMaxDepth = 300;

template <typename... Parts>
[[noreturn]] void Fail(const Parts&... what) {
  throw InputError("damaged flatbuffer: ", what...);
}

}  // namespace

FlatTable FlatBuffer::Root() { return FlatTable(this, Follow(0), 0); }

void FlatBuffer::Check(uint64_t position, uint64_t size) const {
  if (position > data_.size() || size > data_.size() - position) {
    Fail("it refers to bytes ", position, " to ", position + size, " of ", data_.size());
  }
}

std::string_view FlatBuffer::Part(uint64_t position, uint64_t size) {
  Check(position, size);
  if (size > uncopied_) Fail("several fields have the same bytes");
  uncopied_ -= size;
  return data_.substr(position, size);
}

void FlatBuffer::Count(uint64_t elements) {
  if (4 * elements > unread_) Fail("it has more elements than bytes");
  unread_ -= 4 * elements;
}

FlatTable::FlatTable(FlatBuffer* buffer, uint64_t position, int depth)
    : buffer_(buffer), position_(position), depth_(depth) {
  if (depth > kMaxDepth) Fail("tables are nested over ", kMaxDepth, " deep");
  const int64_t fields = static_cast<int64_t>(position) - buffer->Number<int32_t>(position);
  if (fields < 0) Fail("a field table before its start");
  fields_ = static_cast<uint64_t>(fields);
  size_ = buffer->Number<uint16_t>(fields_);
  if (size_ < 4 || size_ % 2 != 0) Fail("a field table of ", size_, " bytes at ", fields_);
  buffer->Check(fields_, size_);
}

std::optional<uint64_t> FlatTable::Field(int slot) const {
  const uint64_t place = 4 + 2 * static_cast<uint64_t>(slot);
  if (place >= size_) return std::nullopt;
  const auto offset = buffer_->Number<uint16_t>(fields_ + place);
  if (offset == 0) return std::nullopt;
  return position_ + offset;
}

std::string_view FlatTable::Vector(int slot, size_t size) const {
  const std::optional<uint64_t> field = Field(slot);
  if (!field) return {};
  const uint64_t position = buffer_->Follow(*field);
  return buffer_->Part(position + 4, uint64_t{buffer_->Number<uint32_t>(position)} * size);
}

std::string_view FlatTable::Bytes(int slot) const { return Vector(slot, 1); }

std::vector<uint64_t> FlatTable::Targets(int slot) const {
  const std::optional<uint64_t> field = Field(slot);
  if (!field) return {};
  const uint64_t position = buffer_->Follow(*field);
  const uint64_t length = buffer_->Number<uint32_t>(position);
  buffer_->Check(position + 4, 4 * length);
  buffer_->Count(length);
  std::vector<uint64_t> targets(length);
  for (uint64_t i = 0; i < length; ++i) targets[i] = buffer_->Follow(position + 4 + 4 * i);
  return targets;
}

std::optional<FlatTable> FlatTable::Table(int slot) const {
  const std::optional<uint64_t> field = Field(slot);
  if (!field) return std::nullopt;
  buffer_->Count(1);
  return FlatTable(buffer_, buffer_->Follow(*field), depth_ + 1);
}

std::vector<FlatTable> FlatTable::Tables(int slot) const {
  std::vector<FlatTable> tables;
  for (const uint64_t target : Targets(slot)) {
    tables.push_back(FlatTable(buffer_, target, depth_ + 1));
  }
  return tables;
}

std::vector<std::string> FlatTable::Strings(int slot) const {
  std::vector<std::string> strings;
  for (const uint64_t target : Targets(slot)) {
    strings.emplace_back(buffer_->Part(target + 4, buffer_->Number<uint32_t>(target)));
  }
  return strings;
}

}  // namespace pjrt_runner
