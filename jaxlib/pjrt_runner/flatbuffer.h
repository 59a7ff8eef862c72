// Reads flatbuffers that come from anywhere: every offset and size is checked before use.
//
// All functions throw an Error of the input where the bytes are not a flatbuffer. A field that is
// not there is its default: 0, null or empty.

#ifndef JAXLIB_PJRT_RUNNER_FLATBUFFER_H_
#define JAXLIB_PJRT_RUNNER_FLATBUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pjrt_runner {

class FlatTable;

// The bytes, which must outlive it and its tables.
class FlatBuffer {
 public:
  explicit FlatBuffer(std::string_view data)
      : data_(data), unread_(data.size()), uncopied_(data.size()) {}
  FlatBuffer(const FlatBuffer&) = delete;

  FlatTable Root();

 private:
  friend class FlatTable;

  void Check(uint64_t position, uint64_t size) const;

  template <typename T>
  T Number(uint64_t position) const {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
    Check(position, sizeof(T));
    std::make_unsigned_t<T> value = 0;
    for (size_t i = sizeof(T); i-- > 0;) {
      value = static_cast<std::make_unsigned_t<T>>(uint64_t{value} << 8 |
                                                   static_cast<uint8_t>(data_[position + i]));
    }
    return static_cast<T>(value);
  }

  uint64_t Follow(uint64_t position) const { return position + Number<uint32_t>(position); }
  std::string_view Part(uint64_t position, uint64_t size);
  // Offsets only point forward, but may meet: a short file could describe a huge tree.
  void Count(uint64_t elements);

  const std::string_view data_;
  uint64_t unread_;
  uint64_t uncopied_;
};

// Fields are named by their slot: 0 for the first one declared.
class FlatTable {
 public:
  bool Has(int slot) const { return Field(slot).has_value(); }

  template <typename T>
  T Number(int slot) const {
    const std::optional<uint64_t> position = Field(slot);
    return position ? buffer_->Number<T>(*position) : T{0};
  }

  // Strings, and vectors of bytes.
  std::string_view Bytes(int slot) const;
  std::optional<FlatTable> Table(int slot) const;
  std::vector<FlatTable> Tables(int slot) const;
  std::vector<std::string> Strings(int slot) const;

  template <typename T>
  std::vector<T> Numbers(int slot) const {
    const std::string_view bytes = Vector(slot, sizeof(T));
    std::vector<T> numbers(bytes.size() / sizeof(T));
    const FlatBuffer elements(bytes);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = elements.Number<T>(i * sizeof(T));
    return numbers;
  }

 private:
  friend class FlatBuffer;

  FlatTable(FlatBuffer* buffer, uint64_t position, int depth);

  std::optional<uint64_t> Field(int slot) const;
  // The elements of a vector of numbers.
  std::string_view Vector(int slot, size_t size) const;
  // Where the elements of a vector of offsets point.
  std::vector<uint64_t> Targets(int slot) const;

  FlatBuffer* buffer_;
  uint64_t position_;
  uint64_t fields_;
  uint64_t size_;
  int depth_;
};

}  // namespace pjrt_runner

#endif  // JAXLIB_PJRT_RUNNER_FLATBUFFER_H_
