#include "jaxlib/pjrt_runner/npy.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/files.h"

namespace pjrt_runner {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;  // NumPy's

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Reads a Python dictionary with the three entries that the format has.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header Parse() {
    Header header;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr" && !header.descr) {
        if (Peek() == '[') {
          throw InputError(name_, ": arrays with several fields an element cannot be arguments");
        }
        header.descr = String();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = Bool();
      } else if (key == "shape" && !header.shape) {
        header.shape = Tuple();
      } else {
        Fail(Cat("an entry '", key.substr(0, 40), "' that should not be there"));
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    if (Peek() != '\0') Fail("something after its dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      Fail("not all of descr, fortran_order and shape");
    }
    return header;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw InputError(name_, " is damaged: the header of the .npy file has ", what);
  }

  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Accept(char character) {
    if (Peek() != character) return false;
    ++at_;
    return true;
  }

  void Expect(char character) {
    if (!Accept(character)) Fail(Cat("no '", character, "' at byte ", at_));
  }

  std::string String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Fail(Cat("no string at byte ", at_));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) Fail("a string without an end");
    const std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool Bool() {
    Peek();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    Fail("a fortran_order that is neither True nor False");
  }

  Shape Tuple() {
    Shape shape;
    Expect('(');
    while (!Accept(')')) {
      if (shape.size() == kMaxRank) Fail(Cat("more than ", kMaxRank, " dimensions"));
      shape.push_back(Integer());
      if (!Accept(',')) {
        if (shape.size() == 1) Fail("a shape that is no tuple");
        Expect(')');
        break;
      }
    }
    return shape;
  }

  int64_t Integer() {
    int64_t value = 0;
    size_t digits = 0;
    Peek();
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      if (digits == 18) Fail("a dimension that is too large");
      value = 10 * value + (text_[at_] - '0');
    }
    if (digits == 0) Fail("a dimension that is no number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
    return value;
  }

  const std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

// The numbers of bytes that NumPy's kinds can have.
bool IsKnown(char kind, size_t size) {
  return kind == 'V' ? size == 1 || size == 2 : TypeOfNpy(kind, size) != nullptr;
}

void SwapBytes(std::vector<std::byte>& data, size_t size) {
  for (size_t i = 0; i + size <= data.size(); i += size) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i),
                 data.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
}

// From column-major to row-major order.
std::vector<std::byte> Transposed(const std::vector<std::byte>& data, const Shape& shape,
                                  size_t size) {
  std::vector<std::byte> result(data.size());
  std::vector<size_t> strides(shape.size());
  size_t stride = size;
  for (size_t i = 0; i < shape.size(); ++i) {
    strides[i] = stride;
    stride *= static_cast<size_t>(shape[i]);
  }
  Shape index(shape.size());
  size_t from = 0;
  for (size_t to = 0; to < result.size(); to += size) {
    std::memcpy(result.data() + to, data.data() + from, size);
    for (size_t i = shape.size(); i-- > 0;) {
      from += strides[i];
      if (++index[i] < shape[i]) break;
      from -= strides[i] * static_cast<size_t>(shape[i]);
      index[i] = 0;
    }
  }
  return result;
}

size_t LittleEndian(std::string_view bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// The header's text and what follows it.
std::pair<std::string_view, std::string_view> Split(std::string_view bytes,
                                                    const std::string& name) {
  if (!bytes.starts_with(kMagic)) throw InputError(name, " is not an .npy file");
  bytes.remove_prefix(kMagic.size());
  if (bytes.size() < 2) throw InputError(name, " is damaged: it ends within its header");
  const int version = static_cast<uint8_t>(bytes[0]);
  if (version < 1 || version > 3 || bytes[1] != 0) {
    throw InputError(name, " has version ", version, ".", +static_cast<uint8_t>(bytes[1]),
                     " of the .npy format; 1.0, 2.0 and 3.0 can be read");
  }
  bytes.remove_prefix(2);
  const size_t digits = version == 1 ? 2 : 4;
  if (bytes.size() < digits) throw InputError(name, " is damaged: it ends within its header");
  const size_t length = LittleEndian(bytes.substr(0, digits));
  bytes.remove_prefix(digits);
  if (bytes.size() < length) throw InputError(name, " is damaged: it ends within its header");
  return {bytes.substr(0, length), bytes.substr(length)};
}

void CheckBools(const NpyArray& array, const std::string& name) {
  if (array.kind != 'b') return;
  for (const std::byte value : array.data) {
    if (value > std::byte{1}) {
      throw InputError(name, " is damaged: a bool has the byte ", static_cast<int>(value));
    }
  }
}

}  // namespace

NpyArray ParseNpy(std::string_view bytes, const std::string& name) {
  const auto [text, data] = Split(bytes, name);
  const Header header = HeaderParser(text, name).Parse();
  const std::string& descr = *header.descr;
  const char order = descr.empty() ? '\0' : descr[0];
  const bool digits =
      descr.size() > 2 && descr.size() < 5 &&
      std::all_of(descr.begin() + 2, descr.end(), [](char c) { return c >= '0' && c <= '9'; });
  const size_t size = digits ? static_cast<size_t>(std::stoi(descr.substr(2))) : 0;
  if (!digits || std::string_view("<>|=").find(order) == std::string_view::npos ||
      !IsKnown(descr[1], size)) {
    throw InputError(name, ": elements of the type '", descr.substr(0, 40),
                     "' cannot be arguments of a program");
  }
  NpyArray array = {descr[1], size, *header.shape, {}};
  const ElementType bytes_of = {"", PJRT_Buffer_Type_INVALID, array.kind, size, -1};
  const size_t wanted = ByteSize(bytes_of, array.shape);
  if (data.size() != wanted) {
    throw InputError(name, " is damaged: ", TypeText(array), " takes ", wanted,
                     " bytes after the header, and it has ", data.size());
  }
  array.data.resize(wanted);
  if (wanted > 0) std::memcpy(array.data.data(), data.data(), wanted);
  const bool little = std::endian::native == std::endian::little;
  if (order == (little ? '>' : '<') && array.kind != 'V') {
    SwapBytes(array.data, array.kind == 'c' ? size / 2 : size);
  }
  if (*header.fortran_order && array.shape.size() > 1) {
    array.data = Transposed(array.data, array.shape, size);
  }
  CheckBools(array, name);
  return array;
}

std::string TypeText(const NpyArray& array) {
  if (const ElementType* type = TypeOfNpy(array.kind, array.size)) {
    return TypeText(*type, array.shape);
  }
  const std::string name = Cat(array.kind, array.size);
  return TypeText({name, PJRT_Buffer_Type_INVALID, array.kind, array.size, -1}, array.shape);
}

bool HasType(const NpyArray& array, const ElementType& type) {
  if (array.kind != 'V') return TypeOfNpy(array.kind, array.size) == &type;
  return type.kind == 'V' && type.size == array.size;
}

std::string NpyHeader(const ElementType& type, const Shape& shape) {
  // as NumPy: no order where there is one byte, but for raw bytes
  const char order = type.size == 1 && type.kind != 'V'           ? '|'
                     : std::endian::native == std::endian::little ? '<'
                                                                  : '>';
  std::string text =
      Cat("{'descr': '", order, type.kind, type.size, "', 'fortran_order': False, 'shape': (");
  for (size_t i = 0; i < shape.size(); ++i) text += Cat(i == 0 ? "" : " ", shape[i], ",");
  if (shape.size() > 1) text.pop_back();
  text += "), }";
  // the elements start at a multiple of 64 bytes
  const auto padded = [&](size_t before) {
    const size_t length = before + text.size() + 1;
    return text + std::string((64 - length % 64) % 64, ' ') + "\n";
  };
  std::string header = padded(kMagic.size() + 4);
  const bool is_long = header.size() > std::numeric_limits<uint16_t>::max();
  if (is_long) header = padded(kMagic.size() + 6);
  std::string start = Cat(kMagic, is_long ? '\2' : '\1', '\0');
  for (size_t i = 0; i < (is_long ? 4u : 2u); ++i) {
    start += static_cast<char>(header.size() >> 8 * i & 0xff);
  }
  return start + header;
}

void WriteNpy(const std::string& path, const Array& array) {
  WriteFile(path, NpyHeader(*array.type, array.shape),
            {reinterpret_cast<const char*>(array.data.data()), array.data.size()});
}

}  // namespace pjrt_runner
