// Runs what export_models.py has written, with onnxruntime and without Python.
//
//   serve digits served/digits.onnx served/images.f32
//   serve text served/transformer.onnx "The " 40

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// A model with one input and one output, whose first dimension is the batch.
class Model {
 public:
  explicit Model(const std::string& path)
      : environment_(ORT_LOGGING_LEVEL_WARNING, "serve"),
        session_(environment_, path.c_str(), Ort::SessionOptions{}),
        input_(session_.GetInputNameAllocated(0, allocator_).get()),
        output_(session_.GetOutputNameAllocated(0, allocator_).get()),
        shape_(session_.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape()) {}

  // The number of elements of one example.
  int64_t ExampleSize() const {
    int64_t size = 1;
    for (size_t i = 1; i < shape_.size(); ++i) size *= shape_[i];
    return size;
  }

  // The results for all examples in `inputs`, one after the other.
  template <typename T>
  std::vector<float> Run(std::vector<T>& inputs) {
    std::vector<int64_t> shape = shape_;
    shape[0] = static_cast<int64_t>(inputs.size()) / ExampleSize();
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const Ort::Value input = Ort::Value::CreateTensor<T>(memory, inputs.data(), inputs.size(), shape.data(), shape.size());
    const char* input_names[] = {input_.c_str()};
    const char* output_names[] = {output_.c_str()};
    const auto outputs = session_.Run(Ort::RunOptions{}, input_names, &input, 1, output_names, 1);
    const float* logits = outputs[0].template GetTensorData<float>();
    return {logits, logits + outputs[0].GetTensorTypeAndShapeInfo().GetElementCount()};
  }

 private:
  Ort::Env environment_;
  Ort::AllocatorWithDefaultOptions allocator_;
  Ort::Session session_;
  std::string input_, output_;
  std::vector<int64_t> shape_;
};

template <typename Iterator>
int64_t ArgMax(Iterator first, Iterator last) {
  return std::distance(first, std::max_element(first, last));
}

std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

// The digit on each image, in one line.
void Digits(const std::string& model_path, const std::string& images_path) {
  Model model(model_path);
  std::vector<float> images = ReadFloats(images_path);
  const std::vector<float> logits = model.Run(images);
  constexpr int kDigits = 10;
  for (auto row = logits.begin(); row != logits.end(); row += kDigits) std::cout << ArgMax(row, row + kDigits);
  std::cout << '\n';
}

// The most likely character, one after the other.
void Text(const std::string& model_path, std::string text, int count) {
  Model model(model_path);
  const size_t length = static_cast<size_t>(model.ExampleSize());
  for (int i = 0; i < count; ++i) {
    const std::string window = text.substr(text.size() > length ? text.size() - length : 0);
    std::vector<int32_t> characters(window.begin(), window.end());
    characters.resize(length);
    const std::vector<float> logits = model.Run(characters);
    const auto width = static_cast<std::ptrdiff_t>(logits.size() / length);
    const auto row = logits.begin() + (static_cast<std::ptrdiff_t>(window.size()) - 1) * width;
    text.push_back(static_cast<char>(ArgMax(row, row + width)));
  }
  std::cout << text << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 3 && arguments[0] == "digits") {
      Digits(arguments[1], arguments[2]);
    } else if (arguments.size() == 4 && arguments[0] == "text" && !arguments[2].empty()) {
      Text(arguments[1], arguments[2], std::stoi(arguments[3]));
    } else {
      std::cerr << "serve digits MODEL.onnx IMAGES.f32\nserve text MODEL.onnx PROMPT COUNT\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "serve: " << error.what() << '\n';
    return 1;
  }
}
