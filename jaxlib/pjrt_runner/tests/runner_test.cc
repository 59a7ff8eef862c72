// Runs the whole program with the stub of a plugin.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "jaxlib/pjrt_runner/element_type.h"
#include "jaxlib/pjrt_runner/files.h"
#include "jaxlib/pjrt_runner/npy.h"
#include "jaxlib/pjrt_runner/program.h"
#include "jaxlib/pjrt_runner/tests/exported_writer.h"

namespace pjrt_runner {
namespace {

std::string StubPath() {
  const char* path = std::getenv("STUB_PLUGIN");
  return path != nullptr ? path : "jaxlib/pjrt_runner/tests/stub_plugin.so";
}

int LiveObjects() {
  void* const library = dlopen(StubPath().c_str(), RTLD_NOW);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return -1;
  }
  return reinterpret_cast<int (*)()>(dlsym(library, "StubLiveObjects"))();
}

class RunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    // tests of other processes may run at the same time
    folder_ = testing::TempDir() + "/runner_test_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }

  void TearDown() override {
    for (const char* name : {"STUB_FAIL", "STUB_MISSING", "STUB_MAJOR", "STUB_SHAPE"})
      unsetenv(name);
    EXPECT_EQ(LiveObjects(), 0);
    std::filesystem::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string Write(const std::string& name, const std::string& bytes) const {
    WriteFile(Path(name), bytes);
    return Path(name);
  }

  template <typename T>
  std::string WriteArray(const std::string& name, const char* type, const Shape& shape,
                         const std::vector<T>& values) const {
    return Write(name, NpyHeader(*TypeOfName(type), shape) +
                           std::string(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(T)));
  }

  template <typename T>
  std::vector<T> Output(const std::string& name) const {
    const NpyArray array = ParseNpy(ReadFile(Path("out/" + name)), name);
    const auto* start = reinterpret_cast<const T*>(array.data.data());
    return std::vector<T>(start, start + array.data.size() / sizeof(T));
  }

  // The program's exit status. The plugin is the stub, if none is given.
  int Run(std::vector<std::string> arguments, bool with_plugin = true) {
    if (with_plugin) arguments.push_back("--plugin=" + StubPath());
    out_.str("");
    err_.str("");
    return RunProgram(arguments, out_, err_);
  }

  void ExpectFailure(int status, const std::string& part, const std::vector<std::string>& arguments,
                     bool with_plugin = true) {
    EXPECT_EQ(Run(arguments, with_plugin), status) << err_.str();
    EXPECT_NE(err_.str().find(part), std::string::npos) << err_.str();
  }

  // A program of two arguments, and their files.
  void SetUpSum(const ExportedSpec& spec = {}) {
    module_ = Write("f.bin", WriteExported(spec));
    x_ = WriteArray<float>("x.npy", "float32", {2, 3}, {1, 2, 3, 4, 5, 6});
    y_ = WriteArray<float>("y.npy", "float32", {2, 3}, {10, 20, 30, 40, 50, 60});
  }

  std::string folder_, module_, x_, y_;
  std::ostringstream out_, err_;
};

TEST_F(RunnerTest, RunsAnExportedProgram) {
  SetUpSum();
  ASSERT_EQ(Run({"--module", module_, x_, y_, "--output-dir", Path("out")}), 0) << err_.str();
  EXPECT_EQ(Output<float>("output_0.npy"), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  EXPECT_NE(out_.str().find("compiled 'replicas 1 partitions 1 on 10 shardy'"), std::string::npos)
      << out_.str();
  EXPECT_NE(out_.str().find("output_0: float32[2,3]"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("out/output_0.npy.partial")));
}

TEST_F(RunnerTest, LeavesOutArgumentsThatAreNotUsed) {
  ExportedSpec spec;
  spec.module = "stub: identity 0";
  spec.kept = {1};
  SetUpSum(spec);
  ASSERT_EQ(Run({"--module", module_, "-", y_, "--output-dir", Path("out")}), 0) << err_.str();
  EXPECT_EQ(Output<float>("output_0.npy")[5], 60);
  ExpectFailure(3, "argument 1, float32[2,3], is used", {"--module", module_, x_, "-"});
}

TEST_F(RunnerTest, GivesThePlatformToProgramsForSeveral) {
  ExportedSpec spec;
  spec.module = "stub: identity 0; add 1 2";
  spec.platforms = {"tpu", "cpu", "cuda"};
  spec.uses_global_constants = true;
  spec.results = {{3, {}}, {10, {"2", "3"}}};
  SetUpSum(spec);
  const std::vector<std::string> run = {"--module", module_, x_, y_, "--output-dir", Path("out")};
  ASSERT_EQ(Run(run), 0) << err_.str();
  EXPECT_EQ(Output<int32_t>("output_0.npy"), std::vector<int32_t>{1});
  std::vector<std::string> chosen = run;
  chosen.push_back("--platform=cuda");
  ASSERT_EQ(Run(chosen), 0) << err_.str();
  EXPECT_EQ(Output<int32_t>("output_0.npy"), std::vector<int32_t>{2});
  chosen.back() = "--option=platform=gpu";
  ASSERT_EQ(Run(chosen), 0) << err_.str();
  EXPECT_EQ(Output<int32_t>("output_0.npy"), std::vector<int32_t>{2});
  chosen.back() = "--option=platform=metal";
  ExpectFailure(3, "is for the platforms tpu, cpu, cuda, and the plugin's is metal", chosen);
  setenv("STUB_FAIL", "PJRT_Client_Compile", 1);
  ExpectFailure(1, "export it for this one only", run);
}

TEST_F(RunnerTest, CutsArraysAmongDevices) {
  ExportedSpec spec;
  spec.num_devices = 4;
  spec.mesh = {{"a", 2}, {"b", 2}};
  spec.arguments = {{10, {"2", "4"}, {{"a"}, {"b"}}, true}, {10, {"2", "4"}, {{"a"}, {"b"}}, true}};
  spec.results = {{10, {"2", "4"}, {{"a"}, {"b"}}, true}, {10, {"2", "4"}, {{"a"}, {"b"}}, true}};
  spec.module = "stub: add 0 1; identity 1";
  spec.calling_convention = 9;
  SetUpSum(spec);
  x_ = WriteArray<float>("x.npy", "float32", {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<std::string> run = {"--module", module_, x_, x_, "--output-dir", Path("out")};
  std::vector<std::string> on_five = run;
  on_five.push_back("--option=devices=5");
  ASSERT_EQ(Run(on_five), 0) << err_.str();
  EXPECT_EQ(Output<float>("output_0.npy"), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(Output<float>("output_1.npy"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_NE(out_.str().find("'replicas 1 partitions 4 on 10 11 12 13 shardy'"), std::string::npos);
  on_five.push_back("--devices=14,12,10,11");
  ASSERT_EQ(Run(on_five), 0) << err_.str();
  EXPECT_NE(out_.str().find("on 14 12 10 11 shardy'"), std::string::npos);
  EXPECT_EQ(Output<float>("output_0.npy"), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
  on_five.back() = "--devices=14,12,10,12";
  ExpectFailure(3, "id 12 was chosen twice", on_five);
  on_five.back() = "--devices=14,12,10,99";
  ExpectFailure(3, "no device with the id 99", on_five);
  on_five.back() = "--devices=14";
  ExpectFailure(3, "for 4 devices, and 1 were chosen", on_five);
  ExpectFailure(3, "for 4 devices, and there are 1", run);
  on_five.back() = "--partitions=4";
  ExpectFailure(2, "the exported program has its own", on_five);
}

TEST_F(RunnerTest, RunsModules) {
  SetUpSum();
  const std::string module = Write("m.mlir", "stub: add 0 1; identity 2");
  const std::string raw = WriteArray<uint16_t>("b.npy", "bfloat16", {2}, {0x3f80, 0x4000});
  ASSERT_EQ(Run({"--module", module, x_, y_, "bfloat16:" + raw, "--output-dir", Path("out"),
                 "--replicas=2", "--option=devices=2", "--partitioner=gspmd",
                 "--compile-option=xla_a=1", "--compile-option=xla_b:str=1"}),
            0)
      << err_.str();
  EXPECT_EQ(Output<float>("output_0.device_1.npy")[5], 66);
  EXPECT_EQ(Output<uint16_t>("output_1.device_0.npy"), (std::vector<uint16_t>{0x3f80, 0x4000}));
  EXPECT_NE(out_.str().find("'replicas 2 partitions 1 on 10 11 xla_a xla_b'"), std::string::npos)
      << out_.str();
  ExpectFailure(3, "raw bytes: name their type", {"--module", module, x_, y_, raw});
  ExpectFailure(3, "no elements of the type bfloat16", {"--module", module, "bfloat16:" + x_});
  ExpectFailure(2, "takes no argument -", {"--module", module, "-"});
  ExpectFailure(2, "--platform is for exported programs", {"--module", module, "--platform=cpu"});
  ExpectFailure(1, "an argument is missing", {"--module", module, x_, y_});
}

TEST_F(RunnerTest, SavesAndLoadsExecutables) {
  SetUpSum();
  const std::string file = Path("executable");
  ASSERT_EQ(Run({"--module", module_, "--compile-only", "--save-executable", file}), 0);
  EXPECT_NE(out_.str().find("arguments: 24"), std::string::npos) << out_.str();
  const std::vector<std::string> outputs = {"--output-dir", Path("out"), "--load-executable", file};
  for (const bool with_module : {true, false}) {
    std::vector<std::string> run = {x_, y_};
    run.insert(run.end(), outputs.begin(), outputs.end());
    if (with_module) run.insert(run.end(), {"--module", module_});
    ASSERT_EQ(Run(run), 0) << err_.str();
    EXPECT_EQ(Output<float>("output_0.npy")[5], 66);
    std::filesystem::remove_all(Path("out"));
  }
  Write("executable", "stub: add 0 1; identity 0\n1 10");
  ExpectFailure(3, "has 2 results, and the exported program 1",
                {"--module", module_, x_, y_, "--load-executable", file});
  Write("executable", "stub: add 0 1\n2 10 11");
  ExpectFailure(3, "runs on 2 devices of this process, and the exported program is for 1",
                {"--module", module_, x_, y_, "--load-executable", file, "--option=devices=2"});
  Write("executable", "junk");
  ExpectFailure(1, "not an executable", {x_, y_, "--load-executable", file});
}

TEST_F(RunnerTest, CompilesForAbsentDevices) {
  SetUpSum();
  const std::string file = Path("executable");
  ASSERT_EQ(Run({"--module", module_, "--topology=two", "--save-executable", file}), 0);
  EXPECT_NE(out_.str().find("on 10 shardy' in "), std::string::npos) << out_.str();
  EXPECT_EQ(ReadFile(file), "stub: add 0 1\n1 10");
  ASSERT_EQ(Run({"--list-devices", "--topology=two"}), 0);
  EXPECT_EQ(out_.str(),
            "platform cpu, 2 devices\n  id 10: stub kind, process 0, stub 10\n"
            "  id 11: stub kind, process 0, stub 11\n");
}

TEST_F(RunnerTest, SaysWhatIsThere) {
  ASSERT_EQ(Run({"--list-devices", "--option=devices=1"}), 0);
  EXPECT_EQ(out_.str(),
            "platform cpu (stub 1), 1 device\n  id 10: stub kind, process 0, stub 10\n");
  ASSERT_EQ(Run({"--version"}), 0);
  EXPECT_NE(out_.str().find("  flavour: plain\n  stablehlo: [1,2,3]\n"), std::string::npos);
  ASSERT_EQ(Run({"--version"}, false), 0);
  ASSERT_EQ(Run({"--help"}, false), 0);
  EXPECT_NE(out_.str().find("Exit status:"), std::string::npos);
  SetUpSum();
  ASSERT_EQ(Run({"--describe", "--module", module_}, false), 0);
  EXPECT_NE(out_.str().find("argument 1: float32[2,3]"), std::string::npos);
  ASSERT_EQ(Run({"--describe", "--module", Write("m", "module {}")}, false), 0);
}

TEST_F(RunnerTest, WrongArrays) {
  SetUpSum();
  const std::string z = WriteArray<int32_t>("z.npy", "int32", {2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string shape = WriteArray<float>("s.npy", "float32", {3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectFailure(3, "has 2 arguments, and 1 is given", {"--module", module_, x_});
  ExpectFailure(3, "argument 1 must be float32[2,3], and " + z + " has int32[2,3]",
                {"--module", module_, x_, z});
  ExpectFailure(3, "has float32[3,2]", {"--module", module_, x_, shape});
  ExpectFailure(3, "has float16[2,3]", {"--module", module_, x_, "float16:" + y_});
  ExpectFailure(3, "is not an .npy file", {"--module", module_, x_, module_});
  ExpectFailure(3, "cannot be read: No such file", {"--module", module_, x_, Path("absent.npy")});
  ExpectFailure(3, "it is a folder", {"--module", folder_, x_});
  setenv("STUB_SHAPE", "wrong", 1);
  ExpectFailure(3, "result 0 of the compiled program is float32[2,3,1] on device 0",
                {"--module", module_, x_, y_});
}

TEST_F(RunnerTest, MemoryOfOtherKinds) {
  SetUpSum();
  TableWriter aval = AvalTable({10, {"2", "3"}});
  aval.Number<int8_t>(3, 2);
  TableWriter table;
  table.Bytes(1, "f");
  table.Tables(3, {aval});
  table.Tables(7, {TableWriter()});
  table.Strings(9, {"cpu"});
  table.Bytes(13, "stub: identity 0");
  table.Number<uint16_t>(14, 10);
  table.Numbers<uint16_t>(15, {0});
  table.Number<uint32_t>(18, 1);
  // its results are none, and the stub's is one: the arguments come first
  ExpectFailure(3, "has 1 results, and the exported program 0",
                {"--module", Write("host.bin", table.Finish()), x_});
  table.Tables(5, {AvalTable({10, {"2", "3"}})});
  table.Tables(8, {TableWriter()});
  const std::vector<std::string> run = {"--module", Write("host.bin", table.Finish()), x_};
  ExpectFailure(3, "memory of the kind 'pinned_host', and the device has: device", run);
  for (const char* name : {"PJRT_Device_AddressableMemories", "PJRT_Memory_Kind"}) {
    setenv("STUB_FAIL", name, 1);
    ExpectFailure(1, std::string(name) + " failed with INTERNAL: told to fail", run);
  }
}

TEST_F(RunnerTest, WhatCannotBeWritten) {
  SetUpSum();
  const std::vector<std::string> run = {"--module", module_, x_, y_, "--output-dir"};
  std::vector<std::string> into_file = run;
  into_file.push_back(x_ + "/out");
  ExpectFailure(5, "cannot be made", into_file);
  std::filesystem::create_directories(Path("out/output_0.npy"));
  std::vector<std::string> over_folder = run;
  over_folder.push_back(Path("out"));
  ExpectFailure(5, "output_0.npy cannot be written: Is a directory", over_folder);
  EXPECT_FALSE(std::filesystem::exists(Path("out/output_0.npy.partial")));
  ExpectFailure(
      5, "cannot be written",
      {"--module", module_, "--compile-only", "--save-executable", Path("absent/executable")});
}

TEST_F(RunnerTest, PluginsThatCannotBeLoaded) {
  SetUpSum();
  const auto load = [&](const std::string& path) {
    return std::vector<std::string>{"--plugin=" + path, "--list-devices"};
  };
  ExpectFailure(4, "there is no plugin", load(Path("absent.so")), false);
  ExpectFailure(4, "cannot be loaded", load(x_), false);
  setenv("STUB_MAJOR", "1", 1);
  ExpectFailure(4, "has version 1.", {"--list-devices"});
  unsetenv("STUB_MAJOR");
  setenv("STUB_MISSING", "PJRT_Client_Devices", 1);
  ExpectFailure(4, "has no function PJRT_Client_Devices", {"--list-devices"});
  // those that a plugin need not have
  for (const char* name : {"PJRT_Plugin_Initialize", "PJRT_Plugin_Attributes",
                           "PJRT_Executable_GetCompiledMemoryStats"}) {
    setenv("STUB_MISSING", name, 1);
    EXPECT_EQ(Run({"--version"}), 0) << name;
    EXPECT_EQ(Run({"--module", module_, "--compile-only"}), 0) << name;
  }
}

TEST_F(RunnerTest, ErrorsOfErrors) {
  SetUpSum();
  const std::string module = Write("m.mlir", "nothing of the stub's");
  setenv("STUB_FAIL", "PJRT_Error_GetCode", 1);
  ExpectFailure(1, "PJRT_Client_Compile failed with UNKNOWN: not a program", {"--module", module});
  for (const char* name : {"PJRT_Error_GetCode", "PJRT_Error_Message"}) {
    setenv("STUB_MISSING", name, 1);
    ExpectFailure(1, "PJRT_Client_Compile failed with ", {"--module", module});
  }
}

TEST_F(RunnerTest, CommandLines) {
  const std::string plugin = "--plugin=p";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"there is no flag --nope", {"--nope"}},
      {"--plugin needs a value", {"--plugin"}},
      {"--plugin needs a value", {"--plugin="}},
      {"--plugin is there twice", {plugin, plugin}},
      {"--help is there twice", {"--help", "--help"}},
      {"--devices is there twice", {plugin, "--devices=0", "--devices=1"}},
      {"--replicas is there twice", {plugin, "--replicas=2", "--replicas=2"}},
      {"--partitions is there twice", {plugin, "--partitions=2", "--partitions=1"}},
      {"--partitioner is there twice", {plugin, "--partitioner=gspmd", "--partitioner=shardy"}},
      {"--option=a is there twice", {plugin, "--option=a=1", "--option=b=1", "--option=a:str=2"}},
      {"--compile-option=a is there twice", {plugin, "--compile-option=a=1", "--compile-option=a=1"}},
      {"--input needs a value", {plugin, "--input="}},
      {"the argument 'bfloat16:' names no file", {plugin, "bfloat16:"}},
      {"--plugin is missing", {"--module=m"}},
      {"--module is missing", {plugin}},
      {"--help has no value", {"--help=1"}},
      {"--version does not go with --help", {"--help", "--version"}},
      {"--describe: --module is missing", {"--describe"}},
      {"--list-devices: --plugin is missing", {"--list-devices"}},
      {"--plugin does not go with --describe", {"--describe", "--module=m", plugin}},
      {"--module does not go with --list-devices", {"--list-devices", plugin, "--module=m"}},
      {"--input (or a file) does not go with --compile-only",
       {plugin, "--module=m", "--compile-only", "x.npy"}},
      {"--output-dir does not go with --topology",
       {plugin, "--module=m", "--topology=t", "--output-dir=o"}},
      {"--compile-only does not go with --load-executable",
       {plugin, "--load-executable=e", "--compile-only"}},
      {"--devices does not go with --load-executable",
       {plugin, "--load-executable=e", "--devices=1"}},
      {"should be --option=NAME=VALUE", {plugin, "--option=a"}},
      {"should be --option=NAME=VALUE", {plugin, "--option==a"}},
      {"should be of the type int, and 'x' is not", {plugin, "--option=a:int=x"}},
      {"should be of the type ints, and '1,' is not", {plugin, "--option=a:ints=1,"}},
      {"has the unknown type real: there are bool, int, ints, float, str",
       {plugin, "--option=a:real=1"}},
      {"there are bool, int, float, str", {plugin, "--compile-option=a:ints=1"}},
      {"should be ids", {plugin, "--devices=a"}},
      {"is no count", {plugin, "--replicas=0"}},
      {"is no count", {plugin, "--partitions=9999999999999999999"}},
      {"there are shardy and gspmd", {plugin, "--partitioner=x"}},
  };
  for (const auto& [message, arguments] : cases) ExpectFailure(2, message, arguments, false);
  ExpectFailure(3, "cannot be read", {plugin, "--option=a=@" + Path("absent")}, false);
}

// Every call of the API that fails ends the program with its name, and leaves nothing behind.
class FailureTest : public RunnerTest, public testing::WithParamInterface<const char*> {};

TEST_P(FailureTest, EveryErrorIsReported) {
  SetUpSum();
  ASSERT_EQ(Run({"--module", module_, "--compile-only", "--save-executable", Path("executable")}),
            0);
  setenv("STUB_FAIL", GetParam(), 1);
  const std::vector<std::vector<std::string>> commands = {
      {"--module", module_, x_, y_, "--output-dir", Path("out")},
      {"--module", module_, "--compile-only", "--save-executable", Path("other")},
      {x_, y_, "--load-executable", Path("executable")},
      {"--module", module_, "--topology=two"},
      {"--list-devices"},
      {"--version"},
  };
  int failures = 0;
  for (const std::vector<std::string>& command : commands) {
    const int status = Run(command);
    if (status == 0) continue;
    ++failures;
    EXPECT_EQ(status, 1);
    EXPECT_NE(err_.str().find(std::string(GetParam()) + " failed with INTERNAL: told to fail"),
              std::string::npos)
        << err_.str();
  }
  EXPECT_GT(failures, 0);
  EXPECT_FALSE(std::filesystem::exists(Path("out/output_0.npy.partial")));
}

constexpr const char* kFunctions[] = {
    "PJRT_Plugin_Initialize",
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Event_Await",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_Client_PlatformName",
    "PJRT_Client_PlatformVersion",
    "PJRT_Client_Devices",
    "PJRT_Client_Compile",
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_DeviceDescription_Id",
    "PJRT_DeviceDescription_ProcessIndex",
    "PJRT_DeviceDescription_Kind",
    "PJRT_DeviceDescription_ToString",
    "PJRT_Device_GetDescription",
    "PJRT_Device_IsAddressable",
    "PJRT_Executable_Destroy",
    "PJRT_Executable_Name",
    "PJRT_Executable_NumReplicas",
    "PJRT_Executable_NumPartitions",
    "PJRT_Executable_NumOutputs",
    "PJRT_Executable_GetCompiledMemoryStats",
    "PJRT_Executable_Serialize",
    "PJRT_Executable_DeserializeAndLoad",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_LoadedExecutable_GetExecutable",
    "PJRT_LoadedExecutable_AddressableDevices",
    "PJRT_LoadedExecutable_Execute",
    "PJRT_Buffer_Destroy",
    "PJRT_Buffer_ElementType",
    "PJRT_Buffer_Dimensions",
    "PJRT_Buffer_ToHostBuffer",
    "PJRT_TopologyDescription_Create",
    "PJRT_TopologyDescription_Destroy",
    "PJRT_TopologyDescription_PlatformName",
    "PJRT_TopologyDescription_GetDeviceDescriptions",
    "PJRT_Compile",
};

INSTANTIATE_TEST_SUITE_P(Api, FailureTest, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pjrt_runner
