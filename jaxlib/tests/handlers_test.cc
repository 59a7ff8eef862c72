#include "jaxlib/kernels/handlers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jaxlib/tests/fake_xla.h"

namespace jaxlib_ext {
namespace {

constexpr auto kF32 = XLA_FFI_DataType_F32;
constexpr auto kS32 = XLA_FFI_DataType_S32;

void ExpectInvalid(const std::optional<CallError>& error, const std::string& message) {
  ASSERT_TRUE(error.has_value()) << message;
  EXPECT_EQ(error->code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(error->message.find(message), std::string::npos) << error->message;
}

class HandlersTest : public testing::Test {
 protected:
  // Attributes that fit an array of two dimensions.
  std::optional<CallError> Sort(FakeCall call, int64_t dimension = 1, int64_t num_keys = 1) {
    call.AddAttribute("dimension", dimension);
    call.AddAttribute("num_keys", num_keys);
    return call.Run(JaxlibExtSort, 2);
  }

  FakeCall Pair() {
    FakeCall call;
    call.AddOperand(kF32, {2, 3}, x_.data());
    call.AddOperand(kS32, {2, 3}, y_.data());
    call.AddResult(kF32, {2, 3}, x_out_.data());
    call.AddResult(kS32, {2, 3}, y_out_.data());
    return call;
  }

  alignas(64) std::vector<float> x_ = {3, 1, 2, -1, -0.0f, -3};
  std::vector<int32_t> y_ = {0, 1, 2, 3, 4, 5};
  std::vector<float> x_out_ = std::vector<float>(6);
  std::vector<int32_t> y_out_ = std::vector<int32_t>(6);
};

TEST_F(HandlersTest, SortsRows) {
  EXPECT_FALSE(Sort(Pair()).has_value());
  EXPECT_EQ(x_out_, (std::vector<float>{1, 2, 3, -3, -1, 0}));
  EXPECT_EQ(y_out_, (std::vector<int32_t>{1, 2, 0, 5, 3, 4}));
}

TEST_F(HandlersTest, SortsColumns) {
  EXPECT_FALSE(Sort(Pair(), 0).has_value());
  EXPECT_EQ(y_out_, (std::vector<int32_t>{3, 4, 5, 0, 1, 2}));
}

TEST_F(HandlersTest, RefusesAttributesOutOfRange) {
  ExpectInvalid(Sort(Pair(), 2), "dimension must be one of the 2 of the operands, got 2");
  ExpectInvalid(Sort(Pair(), -1), "got -1");
  ExpectInvalid(Sort(Pair(), 0, 0), "num_keys must be between 1");
  ExpectInvalid(Sort(Pair(), 0, 3), "got 3");
  ExpectInvalid(Pair().Run(JaxlibExtSort, 2), "Wrong number of attributes");
}

TEST_F(HandlersTest, RefusesOtherOperands) {
  ExpectInvalid(Sort(FakeCall()), "there must be an operand");
  FakeCall more = Pair();
  more.AddOperand(kF32, {2, 3}, x_.data());
  ExpectInvalid(Sort(more), "got 3 operands and 2 results");
  more.AddResult(kS32, {2, 3}, y_out_.data());
  ExpectInvalid(Sort(more), "operand 2 is F32[2,3], but result 2 is S32[2,3]");
  FakeCall shapes = Pair();
  shapes.AddOperand(kF32, {3, 2}, x_.data());
  shapes.AddResult(kF32, {3, 2}, x_out_.data());
  ExpectInvalid(Sort(shapes), "operand 0 is F32[2,3] and operand 2 is F32[3,2]");
  FakeCall type;
  type.AddOperand(XLA_FFI_DataType_TOKEN, {2, 3}, x_.data());
  type.AddResult(XLA_FFI_DataType_TOKEN, {2, 3}, x_out_.data());
  ExpectInvalid(Sort(type), "not supported");
  FakeCall scalar;
  scalar.AddOperand(kF32, {}, x_.data());
  scalar.AddResult(kF32, {}, x_out_.data());
  ExpectInvalid(Sort(scalar, 0), "dimension must be one of the 0");
}

TEST_F(HandlersTest, RefusesShapesOfNoArray) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-2, 3}, {2, -3}, {int64_t{1} << 40, int64_t{1} << 40}}) {
    FakeCall sort;
    sort.AddOperand(kF32, shape, x_.data());
    sort.AddResult(kF32, shape, x_out_.data());
    ExpectInvalid(Sort(sort), "no array has the shape F32[" + std::to_string(shape[0]));
    FakeCall top_k;
    top_k.AddOperand(kF32, shape, x_.data());
    top_k.AddResult(kF32, {2, 1}, x_out_.data());
    top_k.AddResult(kS32, {2, 1}, y_out_.data());
    ExpectInvalid(top_k.Run(JaxlibExtTopK, 2), "no arrays have the shapes");
  }
}

TEST_F(HandlersTest, FindsTheLargest) {
  FakeCall call;
  call.AddOperand(kF32, {2, 3}, x_.data());
  call.AddResult(kF32, {2, 2}, x_out_.data());
  call.AddResult(kS32, {2, 2}, y_out_.data());
  EXPECT_FALSE(call.Run(JaxlibExtTopK, 0).has_value());
  EXPECT_EQ(x_out_, (std::vector<float>{3, 2, 0, -1, 0, 0}));
  EXPECT_EQ(y_out_, (std::vector<int32_t>{0, 2, 1, 0, 0, 0}));
}

TEST_F(HandlersTest, RefusesOtherResultsOfTopK) {
  const auto top_k = [&](XLA_FFI_DataType type, std::vector<int64_t> values,
                         XLA_FFI_DataType index_type, std::vector<int64_t> indices) {
    FakeCall call;
    call.AddOperand(kF32, {2, 3}, x_.data());
    call.AddResult(type, values, x_out_.data());
    call.AddResult(index_type, indices, y_out_.data());
    return call.Run(JaxlibExtTopK, 2);
  };
  ExpectInvalid(top_k(kS32, {2, 1}, kS32, {2, 1}), "must be of its type and S32");
  ExpectInvalid(top_k(kF32, {2, 1}, kF32, {2, 1}), "must be of its type and S32");
  ExpectInvalid(top_k(kF32, {2, 1}, kS32, {2, 2}), "of one shape");
  ExpectInvalid(top_k(kF32, {2, 4}, kS32, {2, 4}), "smaller last dimension");
  ExpectInvalid(top_k(kF32, {1, 3}, kS32, {1, 3}), "smaller last dimension");
  ExpectInvalid(top_k(kF32, {2}, kS32, {2}), "smaller last dimension");
}

class CsrProductTest : public testing::Test {
 protected:
  std::optional<CallError> Run(XLA_FFI_DataType data, XLA_FFI_DataType index,
                               std::vector<int64_t> dense, std::vector<int64_t> product,
                               int64_t transpose = 0, int64_t rows = 2) {
    FakeCall call;
    call.AddOperand(data, {3}, data_.data());
    call.AddOperand(index, {3}, indices_.data());
    call.AddOperand(kS32, {rows + 1}, indptr_.data());
    call.AddOperand(kF32, std::move(dense), dense_.data());
    call.AddResult(kF32, std::move(product), product_.data());
    call.AddAttribute("transpose", transpose);
    return call.Run(JaxlibExtCsrProduct, 2);
  }

  std::vector<float> data_ = {1, 2, 3};
  std::vector<int32_t> indices_ = {0, 2, 1};
  std::vector<int32_t> indptr_ = {0, 2, 3};
  std::vector<float> dense_ = {1, 10, 100};
  std::vector<float> product_ = std::vector<float>(3);
};

TEST_F(CsrProductTest, Multiplies) {
  EXPECT_FALSE(Run(kF32, kS32, {3}, {2}).has_value());
  EXPECT_EQ(product_, (std::vector<float>{201, 30, 0}));
  EXPECT_FALSE(Run(kF32, kS32, {2}, {3}, 1).has_value());
  EXPECT_EQ(product_, (std::vector<float>{1, 30, 2}));
  EXPECT_FALSE(Run(kF32, kS32, {3, 1}, {2, 1}).has_value());
}

TEST_F(CsrProductTest, RefusesOtherOperands) {
  ExpectInvalid(Run(XLA_FFI_DataType_F16, kS32, {3}, {2}), "type that is not supported: F16[3]");
  ExpectInvalid(Run(kS32, kS32, {3}, {2}), "must have one type, got S32[3], F32[3] and F32[2]");
  ExpectInvalid(Run(kF32, XLA_FFI_DataType_S64, {3}, {2}), "be S32 or both S64, got S64[3]");
  ExpectInvalid(Run(kF32, kS32, {3}, {2}, 0, -1), "than the matrix has rows, 2, got S32[0]");
  ExpectInvalid(Run(kF32, kS32, {3}, {3}), "than the matrix has rows, 3, got S32[3]");
  ExpectInvalid(Run(kF32, kS32, {3}, {2}, 1), "than the matrix has rows, 3, got S32[3]");
  ExpectInvalid(Run(kF32, kS32, {3, 1}, {2}), "no product of F32[3,1] is F32[2]");
  ExpectInvalid(Run(kF32, kS32, {3, 1}, {2, 2}), "no product of F32[3,1] is F32[2,2]");
  ExpectInvalid(Run(kF32, kS32, {}, {}), "no product of F32[] is F32[]");
}

class BcooProductTest : public testing::Test {
 protected:
  std::optional<CallError> Run(XLA_FFI_DataType data, XLA_FFI_DataType index,
                               std::vector<int64_t> dense, std::vector<int64_t> product,
                               int64_t transpose = 0, std::vector<int64_t> indices = {3, 2}) {
    FakeCall call;
    call.AddOperand(data, {3}, data_.data());
    call.AddOperand(index, std::move(indices), indices_.data());
    call.AddOperand(kF32, std::move(dense), dense_.data());
    call.AddResult(kF32, std::move(product), product_.data());
    call.AddAttribute("transpose", transpose);
    return call.Run(JaxlibExtBcooProduct, 2);
  }

  std::vector<float> data_ = {1, 2, 3};
  std::vector<int32_t> indices_ = {0, 0, 0, 2, 1, 1};
  std::vector<float> dense_ = {1, 10, 100};
  std::vector<float> product_ = std::vector<float>(3);
};

TEST_F(BcooProductTest, Multiplies) {
  EXPECT_FALSE(Run(kF32, kS32, {3}, {2}).has_value());
  EXPECT_EQ(product_, (std::vector<float>{201, 30, 0}));
  EXPECT_FALSE(Run(kF32, kS32, {2}, {3}, 1).has_value());
  EXPECT_EQ(product_, (std::vector<float>{1, 30, 2}));
  EXPECT_FALSE(Run(kF32, kS32, {3, 1}, {2, 1}).has_value());
}

TEST_F(BcooProductTest, RefusesOtherOperands) {
  ExpectInvalid(Run(XLA_FFI_DataType_F16, kS32, {3}, {2}), "type that is not supported: F16[3]");
  ExpectInvalid(Run(kS32, kS32, {3}, {2}), "must have one type, got S32[3], F32[3] and F32[2]");
  ExpectInvalid(Run(kF32, kF32, {3}, {2}), "two indices of S32 or S64 for each element");
  ExpectInvalid(Run(kF32, kS32, {3}, {2}, 0, {6}), "got F32[3] and S32[6]");
  ExpectInvalid(Run(kF32, kS32, {3}, {2}, 0, {2, 3}), "got F32[3] and S32[2,3]");
  ExpectInvalid(Run(kF32, kS32, {3, 1}, {2}), "with indices S32[3,2] no product of F32[3,1] is F32[2]");
  ExpectInvalid(Run(kF32, kS32, {}, {}), "no product");
}

class CooProductTest : public testing::Test {
 protected:
  std::optional<CallError> Run(std::vector<int32_t> columns, std::vector<int64_t> dense,
                               std::vector<int64_t> product, int64_t transpose = 0,
                               std::vector<int64_t> rows = {3}) {
    FakeCall call;
    call.AddOperand(kF32, {3}, data_.data());
    call.AddOperand(kS32, std::move(rows), rows_.data());
    call.AddOperand(kS32, {static_cast<int64_t>(columns.size())}, columns.data());
    call.AddOperand(kF32, std::move(dense), dense_.data());
    call.AddResult(kF32, std::move(product), product_.data());
    call.AddAttribute("transpose", transpose);
    return call.Run(JaxlibExtCooProduct, 2);
  }

  std::vector<float> data_ = {1, 2, 3};
  std::vector<int32_t> rows_ = {0, 0, 1};
  std::vector<float> dense_ = {1, 10, 100};
  std::vector<float> product_ = std::vector<float>(3);
};

TEST_F(CooProductTest, Multiplies) {
  EXPECT_FALSE(Run({0, 2, 1}, {3}, {2}).has_value());
  EXPECT_EQ(product_, (std::vector<float>{201, 30, 0}));
  EXPECT_FALSE(Run({0, 2, 1}, {2}, {3}, 1).has_value());
  EXPECT_EQ(product_, (std::vector<float>{1, 30, 2}));
  EXPECT_FALSE(Run({0, 2, 1}, {3, 1}, {2, 1}).has_value());
}

// An end is read for what is beyond it, and nothing is written there.
TEST_F(CooProductTest, IndicesOutOfBounds) {
  EXPECT_FALSE(Run({-1, 7, -9}, {3}, {2}).has_value());
  EXPECT_EQ(product_, (std::vector<float>{300, 3, 0}));
  EXPECT_FALSE(Run({-1, 7, -9}, {2}, {3}, 1).has_value());
  EXPECT_EQ(product_, (std::vector<float>{0, 0, 1}));
  // Nothing can be read.
  EXPECT_FALSE(Run({0, 2, 1}, {0}, {2}).has_value());
  EXPECT_EQ(product_, (std::vector<float>{0, 0, 1}));
}

TEST_F(CooProductTest, RefusesOtherOperands) {
  ExpectInvalid(Run({0, 2}, {3}, {2}), "each element, both S32 or both S64, got F32[3], S32[3] and S32[2]");
  ExpectInvalid(Run({0, 2, 1}, {3}, {2}, 0, {3, 1}), "got F32[3], S32[3,1] and S32[3]");
  ExpectInvalid(Run({0, 2, 1}, {3, 1}, {2}), "no product of F32[3,1] is F32[2]");
}

}  // namespace
}  // namespace jaxlib_ext
