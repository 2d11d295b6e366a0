#include "proto/canonical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/text_format.h"
#include "iclsweep/v1/params.pb.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;
using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;

template <typename T>
T FromText(const std::string& text) {
  T message;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::string FormHex(const Message& message) {
  const auto form = CanonicalForm(message);
  EXPECT_TRUE(form.ok()) << form.status();
  return form.ok() ? absl::BytesToHexString(*form) : "error";
}

std::string KeyHex(const v1::TrainInputs& inputs, bool fast = false) {
  const auto key = ComputeJobKey(Stage::kTrain, inputs, {}, fast);
  EXPECT_TRUE(key.ok()) << key.status();
  return key.ok() ? ToHex(*key) : "error";
}

TEST(CanonicalTest, NothingSetHasTheEmptyForm) {
  EXPECT_EQ(FormHex(v1::TrainInputs()), "");
}

TEST(CanonicalTest, OneRecordIsNumberKindLengthPayload) {
  v1::TrainInputs inputs;
  inputs.set_seed(258);
  EXPECT_EQ(FormHex(inputs),
            "00000004"
            "69"
            "0000000000000008"
            "0000000000000102");
}

TEST(CanonicalTest, WritingADefaultChangesNothing) {
  const auto written = FromText<v1::TrainInputs>(
      "model { layers: 12 size: MODEL_SIZE_CUSTOM } data { noise_std: 0 } "
      "train { curriculum { dims_interval: 2000 } } "
      "seed: 0");
  EXPECT_EQ(KeyHex(written), KeyHex(v1::TrainInputs()));
}

TEST(CanonicalTest, TheOrderOfWritingDoesNotMatter) {
  const auto one = FromText<v1::TrainInputs>(
      "seed: 3 model { width: 64 layers: 2 } data { dims: 3 }");
  const auto other = FromText<v1::TrainInputs>(
      "data { dims: 3 } model { layers: 2 width: 64 } seed: 3");
  EXPECT_EQ(KeyHex(one), KeyHex(other));
}

TEST(CanonicalTest, NegativeZeroIsZeroAlsoInLists) {
  const auto negative = FromText<v1::DataParams>(
      "noise_std: -0.0 eigenvalues: -0.0 eigenvalues: 1");
  const auto positive = FromText<v1::DataParams>(
      "noise_std: 0.0 eigenvalues: 0.0 eigenvalues: 1");
  EXPECT_EQ(FormHex(negative), FormHex(positive));
  EXPECT_EQ(FormHex(FromText<v1::DataParams>("noise_std: -0.0")), "");
}

TEST(CanonicalTest, ListElementsEqualToZeroAreKept) {
  EXPECT_NE(FormHex(FromText<v1::PromptParams>("task_order: 0")),
            FormHex(v1::PromptParams()));
  EXPECT_NE(FormHex(FromText<v1::PromptParams>("task_order: 0")),
            FormHex(FromText<v1::PromptParams>("task_order: 0 task_order: 0")));
}

TEST(CanonicalTest, EmptySubmessagesAreLeftOutAtEveryDepth) {
  EXPECT_EQ(
      FormHex(FromText<v1::TrainInputs>("model {} train { curriculum {} }")),
      "");
}

TEST(CanonicalTest, NaNIsRefusedByName) {
  v1::TrainInputs inputs;
  inputs.mutable_data()->set_noise_std(
      std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(CanonicalForm(inputs),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("DataParams.noise_std")));
  EXPECT_THAT(ComputeJobKey(Stage::kTrain, inputs, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NaN")));
  inputs.Clear();
  inputs.mutable_data()->add_eigenvalues(
      std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(
      CanonicalForm(inputs),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("eigenvalues")));
}

TEST(CanonicalTest, UnknownFieldsAreRefusedAtEveryDepth) {
  v1::TrainInputs inputs;
  auto* curriculum = inputs.mutable_train()->mutable_curriculum();
  curriculum->GetReflection()
      ->MutableUnknownFields(curriculum)
      ->AddVarint(77, 1);
  EXPECT_THAT(
      CanonicalForm(inputs),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr("Curriculum"), HasSubstr("77"))));
}

TEST(CanonicalTest, AnEnumNumberOfAnotherVersionIsRefused) {
  v1::PromptParams prompt;  // geometry (field 3) = 99
  ASSERT_TRUE(prompt.ParseFromString(std::string("\x18\x63", 2)));
  EXPECT_THAT(CanonicalForm(prompt),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("field number 3")));
}

TEST(CanonicalTest, StringsOutsideTheAlphabetAreRefused) {
  v1::SweepFile file;
  file.set_name("order-by_similarity:v1.2/a");
  EXPECT_OK(CanonicalForm(file));
  for (const char* bad : {"two words", "é", "new\nline", "quote\""}) {
    file.set_name(bad);
    EXPECT_THAT(CanonicalForm(file),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("SweepFile.name")))
        << bad;
  }
}

TEST(CanonicalTest, MapsOneofsAndExtensionsAreRefused) {
  EXPECT_THAT(
      CanonicalForm(google::protobuf::Struct()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fields")));
  EXPECT_THAT(
      CanonicalForm(google::protobuf::Value()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null_value")));
  EXPECT_THAT(
      CanonicalForm(google::protobuf::FieldOptions()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("extensions")));
}

TEST(CanonicalTest, EveryChangeOfAValueChangesTheKey) {
  const char* const texts[] = {"",
                               "seed: 1",
                               "seed: 2",
                               "model { layers: 1 }",
                               "model { heads: 1 }",
                               "model { init_std: 0.5 }",
                               "model { size: MODEL_SIZE_TINY }",
                               "data { dims: 1 }",
                               "data { noise_std: 0.5 }",
                               "data { eigenvalues: 0.5 }",
                               "data { eigenvalues: 0.5 eigenvalues: 1 }",
                               "data { eigenvalues: 1 eigenvalues: 0.5 }",
                               "train { points: 1 }",
                               "train { steps: 1 }",
                               "train { schedule: SCHEDULE_COSINE }",
                               "train { curriculum { dims_start: 1 } }",
                               "train { curriculum { points_start: 1 } }"};
  std::set<std::string> keys;
  for (const char* text : texts)
    keys.insert(KeyHex(FromText<v1::TrainInputs>(text)));
  EXPECT_EQ(keys.size(), std::size(texts));
}

TEST(CanonicalTest, StageModeAndDependenciesChangeTheKey) {
  const v1::TrainInputs none;
  JobKey one;
  one.bytes[0] = 1;
  const JobKey zero;
  std::set<std::string> keys;
  const auto add = [&](Stage stage, const std::vector<JobKey>& dependencies,
                       bool fast) {
    const auto key = ComputeJobKey(stage, none, dependencies, fast);
    ASSERT_TRUE(key.ok());
    keys.insert(ToHex(*key));
  };
  for (const Stage stage : kAllStages) add(stage, {}, false);
  add(Stage::kTrain, {}, true);
  add(Stage::kTrain, {zero}, false);
  add(Stage::kTrain, {one}, false);
  add(Stage::kTrain, {zero, one}, false);
  add(Stage::kTrain, {one, zero}, false);
  EXPECT_EQ(keys.size(), kAllStages.size() + 5);
}

}  // namespace
}  // namespace iclsweep
