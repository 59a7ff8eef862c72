#include "jaxlib/pjrt_runner/runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "jaxlib/pjrt_runner/error.h"
#include "jaxlib/pjrt_runner/sharding.h"

namespace pjrt_runner {
namespace {

void CheckInput(const Input& input, const Value& value, size_t number) {
  const bool named_otherwise = input.type != nullptr && input.type != value.type;
  if (named_otherwise || !HasType(input.array, *value.type) || input.array.shape != value.shape) {
    const std::string given =
        input.type == nullptr ? TypeText(input.array) : TypeText(*input.type, input.array.shape);
    throw InputError("argument ", number, " must be ", TypeText(value), ", and ", input.name,
                     " has ", given);
  }
}

void CheckInputs(const ExportedProgram& signature,
                 const std::vector<std::optional<Input>>& inputs) {
  const std::vector<Value>& arguments = signature.arguments;
  if (inputs.size() != arguments.size()) {
    throw InputError("the program '", signature.name, "' has ", arguments.size(),
                     arguments.size() == 1 ? " argument" : " arguments", ", and ", inputs.size(),
                     inputs.size() == 1 ? " is given" : " are given");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) CheckInput(*inputs[i], arguments[i], i);
  }
  for (const size_t i : signature.kept_arguments) {
    if (!inputs[i]) {
      throw InputError("argument ", i, ", ", TypeText(arguments[i]),
                       ", is used by the program and must be given");
    }
  }
}

Buffer PlatformArgument(const Client& client, size_t platform, PJRT_Device* device) {
  const auto index = static_cast<int32_t>(platform);
  std::vector<std::byte> data(sizeof(index));
  std::memcpy(data.data(), &index, sizeof(index));
  return client.ToDevice(*TypeOfName("int32"), {}, data, device, "");
}

// Puts the parts of one result together.
Array Assemble(const std::vector<std::vector<Buffer>>& results, size_t number, const Value& value,
               const Client& client) {
  Array whole = {value.type, value.shape,
                 std::vector<std::byte>(ByteSize(*value.type, value.shape))};
  std::vector<Slice> done;  // parts that several devices have are copied once
  for (size_t device = 0; device < results.size(); ++device) {
    const Slice slice = value.SliceOn(static_cast<int64_t>(device));
    if (std::find(done.begin(), done.end(), slice) != done.end()) continue;
    done.push_back(slice);
    const Array part = client.ToHost(results[device][number]);
    if (part.type != value.type || part.shape != slice.shape) {
      throw InputError("result ", number, " of the compiled program is ",
                       TypeText(*part.type, part.shape), " on device ", device, ", and should be ",
                       TypeText(*value.type, slice.shape), ": it is not of the exported program");
    }
    Paste(part.data, slice, whole);
  }
  return whole;
}

}  // namespace

Program Program::Parse(std::string bytes) {
  if (IsMlir(bytes)) return {std::nullopt, std::move(bytes)};
  ExportedProgram exported = ParseExported(bytes);
  CheckRunnable(exported);
  std::string module = std::move(exported.module);
  return {std::move(exported), std::move(module)};
}

std::vector<int64_t> ChooseDevices(const std::vector<Device>& devices, int64_t count,
                                   const std::vector<int64_t>& wanted) {
  std::vector<int64_t> ids;
  for (const Device& device : devices) ids.push_back(device.id);
  if (wanted.empty()) {
    if (std::cmp_less(ids.size(), count)) {
      throw InputError("the program is for ", count, " devices, and there are ", ids.size());
    }
    ids.resize(static_cast<size_t>(count));
    return ids;
  }
  if (std::cmp_not_equal(wanted.size(), count)) {
    throw InputError("the program is for ", count, count == 1 ? " device" : " devices", ", and ",
                     wanted.size(), " were chosen");
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::find(ids.begin(), ids.end(), wanted[i]) == ids.end()) {
      throw InputError("there is no device with the id ", wanted[i], " in this process");
    }
    if (std::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(i), wanted[i]) !=
        wanted.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw InputError("the device with the id ", wanted[i], " was chosen twice");
    }
  }
  return wanted;
}

std::vector<Array> Run(const LoadedExecutable& executable, const ExportedProgram& signature,
                       size_t platform, const std::vector<std::optional<Input>>& inputs) {
  CheckInputs(signature, inputs);
  const Client& client = executable.client();
  const std::vector<PJRT_Device*>& devices = executable.devices();
  if (std::cmp_not_equal(devices.size(), signature.num_devices)) {
    throw InputError("the compiled program runs on ", devices.size(),
                     " devices of this process, and the exported program is for ",
                     signature.num_devices);
  }
  if (executable.executable().NumOutputs() != signature.results.size()) {
    throw InputError("the compiled program has ", executable.executable().NumOutputs(),
                     " results, and the exported program ", signature.results.size());
  }
  std::vector<std::vector<Buffer>> arguments(devices.size());
  for (size_t device = 0; device < devices.size(); ++device) {
    if (signature.TakesPlatform()) {
      arguments[device].push_back(PlatformArgument(client, platform, devices[device]));
    }
    for (const size_t i : signature.kept_arguments) {
      const Value& value = signature.arguments[i];
      const Slice slice = value.SliceOn(static_cast<int64_t>(device));
      const std::vector<std::byte>& data = inputs[i]->array.data;
      const auto send = [&](const std::vector<std::byte>& part) {
        arguments[device].push_back(
            client.ToDevice(*value.type, slice.shape, part, devices[device], value.memory_kind));
      };
      if (slice.shape == value.shape) {
        send(data);
      } else {
        send(Cut(*value.type, value.shape, data, slice));
      }
    }
  }
  const std::vector<std::vector<Buffer>> results = executable.Run(arguments);
  std::vector<Array> arrays;
  for (size_t i = 0; i < signature.results.size(); ++i) {
    arrays.push_back(Assemble(results, i, signature.results[i], client));
  }
  return arrays;
}

std::vector<std::vector<Array>> Run(const LoadedExecutable& executable,
                                    const std::vector<Input>& inputs) {
  const Client& client = executable.client();
  std::vector<const ElementType*> types;
  for (const Input& input : inputs) {
    const ElementType* own = TypeOfNpy(input.array.kind, input.array.size);
    const ElementType* type = input.type == nullptr ? own : input.type;
    if (type == nullptr) {
      throw InputError(input.name, " has ", TypeText(input.array),
                       ", raw bytes: name their type, as in --input=bfloat16:", input.name);
    }
    if (!HasType(input.array, *type)) {
      throw InputError(input.name, " has ", TypeText(input.array), ", and no elements of the type ",
                       type->name);
    }
    types.push_back(type);
  }
  std::vector<std::vector<Buffer>> arguments;
  for (PJRT_Device* device : executable.devices()) {
    std::vector<Buffer>& own = arguments.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NpyArray& array = inputs[i].array;
      own.push_back(client.ToDevice(*types[i], array.shape, array.data, device, ""));
    }
  }
  std::vector<std::vector<Array>> arrays;
  for (const std::vector<Buffer>& results : executable.Run(arguments)) {
    std::vector<Array>& own = arrays.emplace_back();
    for (const Buffer& result : results) own.push_back(client.ToHost(result));
  }
  return arrays;
}

}  // namespace pjrt_runner
