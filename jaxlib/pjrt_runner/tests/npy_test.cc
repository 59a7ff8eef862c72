#include "jaxlib/pjrt_runner/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/error.h"

namespace pjrt_runner {
namespace {

// A file of version 1, whose header is not padded.
std::string File(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = std::string("\x93NUMPY") + version + '\0';
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> Values(const NpyArray& array) {
  std::vector<T> values(array.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

std::string Failure(const std::string& bytes) {
  try {
    ParseNpy(bytes, "x.npy");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "none";
}

TEST(Npy, VersionsAndShapes) {
  const std::string data = Raw<float>({1, 2, 3, 4, 5, 6});
  for (const char version : {1, 2, 3}) {
    const NpyArray array = ParseNpy(File(Header("<f4", "(2, 3)"), data, version), "x");
    EXPECT_EQ(TypeText(array), "float32[2,3]");
    EXPECT_EQ(Values<float>(array), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  EXPECT_EQ(ParseNpy(File(Header("<f8", "()"), Raw<double>({7})), "x").shape, Shape());
  EXPECT_EQ(ParseNpy(File(Header("<f4", "(6,)"), data), "x").shape, Shape({6}));
  EXPECT_EQ(ParseNpy(File(Header("<f4", "(6L, 1L)"), data), "x").shape, Shape({6, 1}));
  EXPECT_EQ(ParseNpy(File(Header("<f4", "(0, 999999999999)"), ""), "x").data.size(), 0u);
}

TEST(Npy, OrdersOfBytesAndDimensions) {
  const NpyArray big = ParseNpy(File(Header(">i2", "(2,)"), std::string("\0\1\2\3", 4)), "x");
  EXPECT_EQ(Values<int16_t>(big), (std::vector<int16_t>{1, 0x203}));
  const NpyArray complex =
      ParseNpy(File(Header(">c8", "(1,)"), std::string("\0\0\0\1\0\0\0\2", 8)), "x");
  EXPECT_EQ(Values<uint32_t>(complex), (std::vector<uint32_t>{1, 2}));
  const std::vector<int8_t> columns = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  const NpyArray fortran = ParseNpy(File(Header("|i1", "(2, 4, 2)", true), Raw(columns)), "x");
  EXPECT_EQ(Values<int8_t>(fortran),
            (std::vector<int8_t>{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}));
}

TEST(Npy, RawTypes) {
  const NpyArray array = ParseNpy(File(Header("<V2", "(3,)"), "abcdef"), "x");
  EXPECT_EQ(TypeText(array), "V2[3]");
  EXPECT_TRUE(HasType(array, *TypeOfName("bfloat16")));
  EXPECT_FALSE(HasType(array, *TypeOfName("float8_e5m2")));
  EXPECT_FALSE(HasType(array, *TypeOfName("float16")));
  const NpyArray e5m2 = ParseNpy(File(Header("<f1", "(3,)"), "abc"), "x");
  EXPECT_EQ(TypeText(e5m2), "float8_e5m2[3]");
  EXPECT_TRUE(HasType(e5m2, *TypeOfName("float8_e5m2")));
  EXPECT_FALSE(HasType(e5m2, *TypeOfName("float8_e4m3fn")));
}

TEST(Npy, WhatIsWrittenIsRead) {
  for (const char* name : {"bool", "int8", "uint64", "float16", "complex128", "bfloat16", "int4"}) {
    const ElementType& type = *TypeOfName(name);
    for (const Shape& shape : {Shape(), Shape{1}, Shape{0, 3}, Shape{2, 3}}) {
      const std::string header = NpyHeader(type, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      const NpyArray array = ParseNpy(header + std::string(ByteSize(type, shape), '\1'), "x");
      EXPECT_TRUE(HasType(array, type)) << name;
      EXPECT_EQ(array.shape, shape);
    }
  }
  EXPECT_EQ(NpyHeader(*TypeOfName("bfloat16"), {3}),
            std::string("\x93NUMPY\x01\x00v\x00", 10) +
                "{'descr': '<V2', 'fortran_order': False, 'shape': (3,), }" + std::string(60, ' ') +
                "\n");
}

TEST(Npy, DamagedFiles) {
  const std::string data = Raw<float>({1, 2});
  const std::string good = File(Header("<f4", "(2,)"), data);
  ASSERT_EQ(Failure(good), "none");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(Failure(good.substr(0, size)), "none");
  EXPECT_EQ(Failure("PK\3\4"), "x.npy is not an .npy file");
  EXPECT_EQ(Failure(good + "x"),
            "x.npy is damaged: float32[2] takes 8 bytes after the header, and it has 9");
  EXPECT_NE(Failure(File(Header("<f4", "(2,)"), data, 4)).find("version 4.0"), std::string::npos);
  for (const char* descr :
       {"<f3", "<U4", "|O", "<M8[s]", "", "f4", "<V16", "<W4", "<f99", "<f-4"}) {
    EXPECT_NE(Failure(File(Header(descr, "(2,)"), data)).find("cannot be arguments"),
              std::string::npos)
        << descr;
  }
  for (const char* shape :
       {"(2)", "2", "(-2,)", "(2", "(99999999999999999999,)", "(2,,)", "(x,)"}) {
    EXPECT_NE(Failure(File(Header("<f4", shape), data)).find("damaged"), std::string::npos)
        << shape;
  }
  const std::string large = "(999999999, 999999999, 999999999)";
  EXPECT_NE(Failure(File(Header("<f4", large), data)).find("fit into memory"), std::string::npos);
  EXPECT_NE(Failure(File(Header("<f4", "(2,)") + "x", data)).find("after its dictionary"),
            std::string::npos);
  EXPECT_NE(Failure(File("{'descr': '<f4'}", data)).find("not all of"), std::string::npos);
  EXPECT_NE(Failure(File("{'descr': [('a', '<f4')]}", data)).find("several fields"),
            std::string::npos);
  EXPECT_NE(Failure(File(Header("|b1", "(1,)"), "\2")).find("a bool has the byte 2"),
            std::string::npos);
}

}  // namespace
}  // namespace pjrt_runner
