#include "worker/model/safetensors.h"

#include <cstring>

#include "ATen/ATen.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/scratch.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public testing::Scratch {};

std::string Bytes(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + std::string(data_bytes, '\0');
}

constexpr char kGood[] =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBackForEveryType) {
  TensorFile written;
  written.metadata = {{"format", "pt"}, {"note", "quote \" and \\ back"}};
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
        at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    written.tensors[std::string("t.") + c10::toString(type)] =
        at::arange(0, 6).remainder(2).to(type).view({2, 3});
  }
  written.tensors["empty"] = at::empty({0, 3});
  written.tensors["scalar"] = at::scalar_tensor(-2.5);
  written.tensors["transposed"] = at::arange(0, 6).view({2, 3}).t();
  ASSERT_OK(WriteSafetensors(Path("x.safetensors"), written));

  ASSERT_OK_AND_ASSIGN(const TensorFile read,
                       ReadSafetensors(Path("x.safetensors")));

  EXPECT_EQ(read.metadata, written.metadata);
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    EXPECT_EQ(read.tensors.at(name).scalar_type(), tensor.scalar_type())
        << name;
    EXPECT_TRUE(at::equal(read.tensors.at(name), tensor)) << name;
  }
}

TEST_F(SafetensorsTest, HeaderIsPaddedAndOrderedByTypeThenName) {
  TensorFile content;
  content.tensors = {{"a8", at::zeros({1}, at::kByte)},
                     {"z64", at::zeros({1}, at::kDouble)},
                     {"b32", at::zeros({1})},
                     {"a32", at::zeros({1})}};
  ASSERT_OK_AND_ASSIGN(const std::string bytes, SerializeSafetensors(content));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes.size(), 8 + length + 8 + 4 + 4 + 1);
  EXPECT_LT(bytes.find("z64"), bytes.find("a32"));
  EXPECT_LT(bytes.find("a32"), bytes.find("b32"));
  EXPECT_LT(bytes.find("b32"), bytes.find("a8"));
}

TEST_F(SafetensorsTest, MissingFileIsNotFound) {
  EXPECT_THAT(ReadSafetensors(Path("absent")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

TEST_F(SafetensorsTest, TheSmallestGoodFileIsRead) {
  ASSERT_OK_AND_ASSIGN(const TensorFile file,
                       ParseSafetensors(Bytes(kGood, 9), "good"));
  EXPECT_EQ(file.tensors.at("a").sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(file.tensors.at("b").dim(), 0);
  EXPECT_OK(ParseSafetensors(Bytes("{}      ", 0), "empty"));
}

struct Rejection {
  const char* name;
  std::string bytes;
  const char* message;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
};

class SafetensorsRejectionTest : public ::testing::TestWithParam<Rejection> {};

std::string Tensor(const std::string& body) { return "{\"a\":{" + body + "}}"; }

std::string HugeHeader() {
  std::string bytes(8, '\0');
  const uint64_t length = 100'000'001;
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + std::string(64, ' ');
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SafetensorsRejectionTest,
    ::testing::Values(
        Rejection{"ShorterThanPrefix", "1234567", "shorter than the 8 bytes"},
        Rejection{"HeaderTooLarge", HugeHeader(), "too large"},
        Rejection{"HeaderBeyondFile", Bytes(kGood, 9).substr(0, 60),
                  "beyond the end of the file"},
        Rejection{"TruncatedData", Bytes(kGood, 8), "tensor b: reaches beyond"},
        Rejection{"TrailingBytes", Bytes(kGood, 10), "1 trailing bytes"},
        Rejection{"NotJson", Bytes("{\"a\":", 0), "not a JSON object"},
        Rejection{"NotAnObject", Bytes("[1]", 0), "not a JSON object"},
        Rejection{"LeadingSpace", Bytes(" {}", 0), "not a JSON object"},
        Rejection{"InvalidUtf8",
                  Bytes("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
                        "offsets\":[0,0]}}",
                        0),
                  "not a JSON object"},
        Rejection{
            "DuplicateTensor",
            Bytes(
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                1),
            "duplicate name a"},
        Rejection{
            "DuplicateKey",
            Bytes(
                Tensor(
                    R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])"),
                1),
            "duplicate name dtype"},
        Rejection{
            "Hole",
            Bytes(Tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"),
                  2),
            "a hole precedes it"},
        Rejection{
            "Overlap",
            Bytes(
                R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                3),
            "tensor b: overlaps"},
        Rejection{
            "ShapeSmallerThanSpan",
            Bytes(Tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
                  8),
            "its shape needs 4 bytes"},
        Rejection{
            "ShapeOverflows",
            Bytes(
                Tensor(
                    R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
                0),
            "its shape overflows"},
        Rejection{
            "EndBeforeBegin",
            Bytes(Tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"),
                  1),
            "data_offsets are [1, 0)"},
        Rejection{
            "NegativeSize",
            Bytes(Tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"),
                  1),
            "not a natural number"},
        Rejection{
            "FractionalOffset",
            Bytes(Tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1.0])"),
                  1),
            "has no data_offsets"},
        Rejection{"NoShape",
                  Bytes(Tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1),
                  "has no shape"},
        Rejection{"NoDtype",
                  Bytes(Tensor(R"("shape":[1],"data_offsets":[0,1])"), 1),
                  "has no dtype"},
        Rejection{"TensorNotAnObject", Bytes(R"({"a":3})", 0),
                  "tensor a: is not an object"},
        Rejection{"MetadataNotStrings", Bytes(R"({"__metadata__":{"x":1}})", 0),
                  "__metadata__ x is not a string"},
        Rejection{
            "BoolOutOfRange",
            Bytes(Tensor(R"("dtype":"BOOL","shape":[1],"data_offsets":[0,1])"),
                  0) +
                "\x02",
            "neither 0 nor 1"},
        Rejection{
            "UnsupportedType",
            Bytes(
                Tensor(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])"),
                1),
            "F8_E4M3 is not supported", absl::StatusCode::kInvalidArgument}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(SafetensorsRejectionTest, IsRefusedNamingTheSource) {
  EXPECT_THAT(ParseSafetensors(GetParam().bytes, "file.x"),
              StatusIs(GetParam().code, AllOf(HasSubstr("file.x"),
                                              HasSubstr(GetParam().message))));
}

}  // namespace
}  // namespace iclsweep
