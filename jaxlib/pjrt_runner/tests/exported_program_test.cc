#include "jaxlib/pjrt_runner/exported_program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/tests/exported_writer.h"

namespace pjrt_runner {
namespace {

std::string Failure(const std::string& bytes) {
  try {
    CheckRunnable(ParseExported(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "none";
}

void ExpectFailure(const ExportedSpec& spec, const std::string& part) {
  const std::string failure = Failure(WriteExported(spec));
  EXPECT_NE(failure.find(part), std::string::npos) << failure;
}

TEST(ExportedProgram, Fields) {
  ExportedSpec spec;
  spec.arguments = {{10, {"2", "3"}}, {27, {"4"}}, {14, {}}};
  spec.results = {{22, {"5"}}, {0, {}}};
  spec.kept = {0, 2};
  spec.platforms = {"cpu", "cuda"};
  const ExportedProgram program = ParseExported(WriteExported(spec));
  CheckRunnable(program);
  EXPECT_EQ(program.module, "stub: add 0 1");
  EXPECT_EQ(program.kept_arguments, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(Describe(program),
            "program 'f' for cpu, cuda, 1 device, calling convention 10\n"
            "  argument 0: float32[2,3]\n"
            "  argument 1: uint32[4,2] (not used)\n"
            "  argument 2: bfloat16[]\n"
            "  result 0: bool[5]\n"
            "  result 1: bool[]\n");
  EXPECT_EQ(PlatformIndex(program, "cuda"), 1u);
  EXPECT_EQ(PlatformIndex(program, "gpu"), 1u);
  EXPECT_THROW(PlatformIndex(program, "tpu"), Error);
  spec.platforms = {"cpu"};
  spec.disabled_checks = {2};
  EXPECT_THROW(PlatformIndex(ParseExported(WriteExported(spec)), "tpu"), Error);
  spec.disabled_checks = {2, 0};
  EXPECT_EQ(PlatformIndex(ParseExported(WriteExported(spec)), "tpu"), 0u);
}

// Without the lists of different types and shardings.
TEST(ExportedProgram, EarlierForm) {
  TableWriter table;
  table.Bytes(1, "f");
  table.Tables(3, {AvalTable({10, {"2"}})});
  table.Tables(5, {AvalTable({3, {}})});
  table.Number<int16_t>(6, 1);
  table.Tables(7, {TableWriter()});
  table.Tables(8, {TableWriter()});
  table.Strings(9, {"cpu"});
  table.Bytes(13, "module");
  table.Number<uint16_t>(14, 9);
  table.Numbers<uint16_t>(15, {0});
  const ExportedProgram program = ParseExported(table.Finish());
  EXPECT_EQ(Describe(program),
            "program 'f' for cpu, 1 device, calling convention 9\n"
            "  argument 0: float32[2]\n"
            "  result 0: int32[]\n");
  table.Number<int16_t>(6, 2);
  TableWriter hlo;
  hlo.Bytes(1, "proto");
  table.Tables(7, {hlo});
  EXPECT_NE(Failure(table.Finish()).find("before March 2026"), std::string::npos);
}

TEST(ExportedProgram, Checksum) {
  // zlib's checksum of "123456789" is the usual test of such functions
  const std::string bytes = "123456789crc32:\x26\x39\xf4\xcb";
  EXPECT_EQ(Failure(bytes).find("checksum"), std::string::npos);
  EXPECT_EQ(Failure("1234567890" + bytes.substr(9)),
            "damaged exported program: its checksum is wrong");
}

TEST(ExportedProgram, Refused) {
  ExportedSpec spec;
  spec.arguments[0].shape = {"2*b", "3"};
  ExpectFailure(spec,
                "argument 0 has the type float32[2*b, 3], with symbolic dimensions, and plugins");
  spec = {};
  spec.uses_global_constants = true;
  ExpectFailure(spec, "symbolic dimensions within");
  spec = {};
  spec.calling_convention = 8;
  ExpectFailure(spec, "version 8 of the calling convention");
  spec = {};
  spec.ordered_effects = {"Print"};
  ExpectFailure(spec, "has ordered effects (Print)");
  spec = {};
  spec.num_devices = 2;
  ExpectFailure(spec, "argument 0, float32[2,3], has no sharding over the 2 devices");
}

TEST(ExportedProgram, Shardings) {
  ExportedSpec spec;
  spec.num_devices = 4;
  spec.mesh = {{"x", 2}, {"y", 2}};
  spec.arguments = {{10, {"4", "6"}, {{"x"}, {"y"}}, true}, {10, {"4", "6"}, {}, true}};
  spec.results = {{10, {"8"}, {{"y", "x"}}, true}};
  const ExportedProgram program = ParseExported(WriteExported(spec));
  CheckRunnable(program);
  EXPECT_EQ(program.arguments[0].SliceOn(2), (Slice{{2, 0}, {2, 3}}));
  EXPECT_EQ(program.arguments[0].SliceOn(3), (Slice{{2, 3}, {2, 3}}));
  EXPECT_EQ(program.arguments[1].SliceOn(3), (Slice{{0, 0}, {4, 6}}));
  EXPECT_EQ(program.results[0].SliceOn(1), (Slice{{4}, {2}}));
  EXPECT_EQ(program.results[0].SliceOn(2), (Slice{{2}, {2}}));
  EXPECT_NE(Describe(program).find("float32[8] P(('y', 'x')) over x=2, y=2"), std::string::npos);

  ExportedSpec wrong = spec;
  wrong.num_devices = 8;
  ExpectFailure(wrong, "which is not over the 8 devices");
  wrong = spec;
  wrong.arguments[0].shape = {"3", "6"};
  ExpectFailure(wrong, "whose 2 parts of dimension 0 of size 3 are not even");
  wrong = spec;
  wrong.arguments[0].partitions = {{"x"}, {"x"}};
  ExpectFailure(wrong, "an axis divides twice");
  wrong = spec;
  wrong.arguments[0].partitions = {{"x"}, {}, {"y"}};
  ExpectFailure(wrong, "more dimensions than its 2");
  wrong = spec;
  wrong.arguments[0].partitions = {{"z"}};
  ExpectFailure(wrong, "an axis that its mesh lacks");
  wrong = spec;
  wrong.mesh = {{"x", 0}, {"y", 2}};
  ExpectFailure(wrong, "which is not over");
  wrong.mesh = {{"x", 4294967295u}, {"y", 4294967295u}};
  ExpectFailure(wrong, "which is not over");
}

TEST(ExportedProgram, CutAndPaste) {
  const Sharding sharding = {{{"x", 2}, {"y", 3}}, {{}, {1}, {0}}, ""};
  const Shape shape = {2, 6, 4};
  const ElementType& type = *TypeOfName("int16");
  Array whole = {&type, shape, std::vector<std::byte>(ByteSize(type, shape))};
  for (size_t i = 0; i < whole.data.size(); ++i) whole.data[i] = static_cast<std::byte>(i);
  Array pasted = {&type, shape, std::vector<std::byte>(whole.data.size())};
  CheckSharding(sharding, shape, 6, "it");
  for (int device = 0; device < 6; ++device) {
    const Slice slice = SliceOf(sharding, shape, device);
    EXPECT_EQ(slice.shape, (Shape{2, 2, 2}));
    const std::vector<std::byte> part = Cut(type, shape, whole.data, slice);
    ASSERT_EQ(part.size(), 16u);
    EXPECT_EQ(part[0], whole.data[static_cast<size_t>(slice.start[1] * 8 + slice.start[2] * 2)]);
    Paste(part, slice, pasted);
  }
  EXPECT_EQ(pasted.data, whole.data);
}

TEST(ExportedProgram, Damaged) {
  ExportedSpec spec;
  const std::string good = WriteExported(spec);
  ASSERT_EQ(Failure(good), "none");
  // some ends are those of bytes that nobody reads
  for (size_t size = 0; size + 8 < good.size(); size += 3) {
    EXPECT_NE(Failure(good.substr(0, size)), "none") << size;
  }
  spec.kept = {1, 0};
  ExpectFailure(spec, "not in order");
  spec.kept = {0, 2};
  ExpectFailure(spec, "not among its 2");
  spec = {};
  spec.platforms = {};
  ExpectFailure(spec, "no platforms");
  spec = {};
  spec.module = "";
  ExpectFailure(spec, "no name or no module");
  spec = {};
  spec.num_devices = 0;
  ExpectFailure(spec, "for 0 devices");
  spec = {};
  spec.arguments[0].type = 99;
  ExpectFailure(spec, "unknown dtype 99");
  spec = {};
  spec.arguments[0].shape = {"99999999999999999999"};
  ExpectFailure(spec, "a dimension of size");
  spec.arguments[0].shape = {"9999999999", "9999999999"};
  ExpectFailure(spec, "fit into memory");
  spec.arguments[0].shape = {"-3"};
  ExpectFailure(spec, "symbolic");
  spec.arguments[0].shape = {std::string("b\0", 2)};
  ExpectFailure(spec, "which is no size");
}

// A type that is listed once, and that many arguments refer to.
TEST(ExportedProgram, TypesOfShortFilesAreNotHuge) {
  const std::vector<std::string> dimensions(20000, "1");
  for (const size_t arguments : {size_t{10}, size_t{20000}}) {
    TableWriter table;
    table.Bytes(1, "f");
    table.Strings(9, {"cpu"});
    table.Bytes(13, "module");
    table.Number<uint16_t>(14, 10);
    table.Number<uint32_t>(18, 1);
    table.Tables(19, {AvalTable({10, dimensions})});
    table.Numbers<uint32_t>(22, std::vector<uint32_t>(arguments));
    table.Numbers<uint32_t>(24, std::vector<uint32_t>(arguments));
    EXPECT_EQ(Failure(table.Finish()),
              arguments == 10 ? "none"
                              : "damaged exported program: its types and shardings take more than "
                                "268435456 bytes");
  }
}

TEST(Error, IsPrintable) {
  EXPECT_EQ(Printable("a\tb\n\x1b[2J\x7f"), "a\tb\n?[2J?");
  // as UTF-8, and alone
  EXPECT_EQ(Printable("\xc2\x9b" "2J \x9b" "2J"), "\xc2?2J ?2J");
  EXPECT_EQ(Printable("\x90\x9b"), "??");
  EXPECT_EQ(Printable("ÀÛü€—名"), "ÀÛü€—名");
}

TEST(ExportedProgram, IsMlir) {
  EXPECT_TRUE(IsMlir("module @f {}"));
  EXPECT_TRUE(IsMlir(std::string("ML\xefR\0\1", 6)));
  EXPECT_FALSE(IsMlir(WriteExported({})));
  EXPECT_FALSE(IsMlir(""));
}

}  // namespace
}  // namespace pjrt_runner
