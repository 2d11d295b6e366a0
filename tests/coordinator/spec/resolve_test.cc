#include "coordinator/spec/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/spec/sweep_spec.h"
#include "coordinator/spec/yaml_reader.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::iclsweep::testing::StatusIs;

v1::SweepFile Sections(const std::string& yaml) {
  v1::SweepFile file;
  const auto places = ReadYaml(yaml, "s.yaml", &file);
  EXPECT_TRUE(places.ok()) << places.status();
  return file;
}

// The resolved message in text format, on one line.
std::string Resolved(Stage stage, const std::string& yaml) {
  const auto inputs = Resolve(Sections(yaml), stage);
  return inputs.ok() ? (*inputs)->ShortDebugString()
                     : inputs.status().ToString();
}

TEST(ResolveTest, SectionsAreCopiedByName) {
  EXPECT_EQ(Resolved(Stage::kTrain,
                     "name: t\ntrain: {steps: 10, points: 7}\nseed: "
                     "4\nevaluate: {seed: 9}"),
            "model { positions: 7 } train { points: 7 steps: 10 } seed: 4");
  EXPECT_EQ(Resolved(Stage::kNoop, "noop: {index: 3}"), "noop { index: 3 }");
}

TEST(ResolveTest, WrittenDefaultsAreUnsetSoEqualKeysHaveEqualBytes) {
  EXPECT_EQ(Resolved(Stage::kTrain,
                     "train: {steps: 500000, curriculum: {dims_start: "
                     "0}}\nseed: 0\ndata: {dims: 20}"),
            Resolved(Stage::kTrain, "train:"));
}

TEST(ResolveTest, PresetsBecomeShapes) {
  EXPECT_EQ(Resolved(Stage::kTrain, "model: {size: tiny}"),
            "model { layers: 3 heads: 2 width: 64 positions: 41 }");
  EXPECT_EQ(Resolved(Stage::kTrain, "model: {size: small}"),
            "model { layers: 6 heads: 4 width: 128 positions: 41 }");
  EXPECT_EQ(Resolved(Stage::kTrain, "model: {size: standard}"),
            Resolved(Stage::kTrain, "model: {layers: 12}"));
  EXPECT_EQ(Resolved(Stage::kTrain, "model: {size: tiny, heads: 2}"),
            Resolved(Stage::kTrain, "model: {size: tiny}"));
  EXPECT_THAT(Resolve(Sections("model: {size: tiny, heads: 4}"), Stage::kTrain),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("model.size")));
}

TEST(ResolveTest, PositionsAreThePointsUnlessSet) {
  EXPECT_EQ(
      Resolved(Stage::kTrain, "model: {positions: 50}\ntrain: {points: 9}"),
      "model { positions: 50 } train { points: 9 }");
}

TEST(ResolveTest, TestTasksInheritTheTrainingDataFieldByField) {
  EXPECT_EQ(Resolved(Stage::kTheory,
                     "data: {dims: 3, noise_std: 0.5, eigenvalues: [1, 2, 3]}\n"
                     "prompt: {data: {noise_std: 0.25}}\ntheory: "
                     "{pretraining_noise_std: 0}"),
            "prompt { data { dims: 3 noise_std: 0.25 eigenvalues: 1 "
            "eigenvalues: 2 eigenvalues: 3 } } "
            "theory { pretraining_length: 41 }");
}

TEST(ResolveTest, AValueEqualToTheDefaultIsNotInherited) {
  EXPECT_EQ(
      Resolved(Stage::kTheory, "data: {dims: 3}\nprompt: {data: {dims: 20}}"),
      "theory { pretraining_length: 41 }");
}

TEST(ResolveTest, AnglesAndIdentityOrdersThatMeanNothingAreCleared) {
  EXPECT_EQ(Resolved(Stage::kTheory,
                     "prompt: {tasks: 2, angle_degrees: 30, task_order: 0-1}"),
            "prompt { tasks: 2 } theory { pretraining_length: 41 }");
  EXPECT_EQ(Resolved(Stage::kTheory,
                     "prompt: {tasks: 2, angle_degrees: 30, task_order: 1-0, "
                     "geometry: angle}"),
            "prompt { tasks: 2 geometry: GEOMETRY_ANGLE angle_degrees: 30 "
            "task_order: 1 task_order: 0 } "
            "theory { pretraining_length: 41 }");
}

TEST(ResolveTest, PretrainingFollowsTheTrainingUnlessSet) {
  EXPECT_EQ(Resolved(Stage::kEvaluate,
                     "train: {points: 16}\ndata: {noise_std: 0.5}\nprompt: "
                     "{data: {noise_std: 0}}"),
            "evaluate { pretraining_length: 16 pretraining_noise_std: 0.5 }");
  EXPECT_EQ(
      Resolved(Stage::kEvaluate,
               "data: {noise_std: 0.5}\nprompt: {data: {noise_std: 0}}\n"
               "evaluate: {pretraining_length: 7, pretraining_noise_std: 0}"),
      "evaluate { pretraining_length: 7 }");
  EXPECT_EQ(Resolved(Stage::kTheory,
                     "train: {points: 16}\ndata: {noise_std: 0.5}\nprompt: "
                     "{data: {noise_std: 0}}"),
            "theory { pretraining_length: 16 pretraining_noise_std: 0.5 }");
}

TEST(ResolveTest, RidgeIsTheBayesEstimatorUnlessSet) {
  EXPECT_EQ(Resolved(Stage::kEvaluate, "prompt: {data: {noise_std: 0.5}}"),
            "prompt { data { noise_std: 0.5 } } evaluate { pretraining_length: "
            "41 ridge_lambda: 0.25 }");
  EXPECT_EQ(
      Resolved(Stage::kEvaluate,
               "prompt: {data: {noise_std: 0.5}}\nevaluate: {ridge_lambda: 2}"),
      "prompt { data { noise_std: 0.5 } } evaluate { pretraining_length: 41 "
      "ridge_lambda: 2 }");
}

TEST(ResolveTest, ParametersOfOtherFamiliesAreCleared) {
  EXPECT_EQ(Resolved(Stage::kTrain,
                     "data: {family: sparse_linear, sparsity: 2, hidden: 7, "
                     "depth: 2}"),
            "model { positions: 41 } data { family: FAMILY_SPARSE_LINEAR "
            "sparsity: 2 }");
  EXPECT_EQ(Resolved(Stage::kTrain, "data: {sparsity: 2, hidden: 7, depth: 2}"),
            Resolved(Stage::kTrain, "train:"));
  EXPECT_EQ(Resolved(Stage::kCompare,
                     "data: {family: sparse_linear, sparsity: 2}\n"
                     "prompt: {data: {family: relu_2nn, hidden: 7}}\n"
                     "compare: {learning_rates: [0.25], tune_tasks: 3}"),
            "prompt { data { family: FAMILY_RELU_2NN hidden: 7 } } compare { "
            "learning_rates: 0.25 tune_tasks: 3 }");
}

TEST(ResolveTest, LassoStandsBesideSparsePromptsUnlessAPenaltyIsSet) {
  EXPECT_EQ(Resolved(Stage::kEvaluate, "data: {family: sparse_linear}"),
            "prompt { data { family: FAMILY_SPARSE_LINEAR } } evaluate { "
            "pretraining_length: 41 lasso_alpha: 0.01 }");
  EXPECT_EQ(Resolved(Stage::kEvaluate,
                     "data: {family: sparse_linear}\nevaluate: {lasso_alpha: "
                     "0.1}"),
            "prompt { data { family: FAMILY_SPARSE_LINEAR } } evaluate { "
            "pretraining_length: 41 lasso_alpha: 0.1 }");
  EXPECT_EQ(Resolved(Stage::kEvaluate,
                     "data: {family: sparse_linear}\nprompt: {data: {family: "
                     "linear}}"),
            "evaluate { pretraining_length: 41 }");
}

TEST(ResolveTest, CompareTunesAsMuchAsItMeasures) {
  EXPECT_EQ(Resolved(Stage::kCompare, "compare: {tasks: 10}"),
            "compare { tasks: 10 learning_rates: 0.0005 learning_rates: 0.001 "
            "learning_rates: 0.002 "
            "learning_rates: 0.004 learning_rates: 0.008 tune_tasks: 10 }");
  EXPECT_EQ(Resolved(Stage::kCompare,
                     "compare: {learning_rates: [0.25], tune_tasks: 3}"),
            "compare { learning_rates: 0.25 tune_tasks: 3 }");
}

TEST(ResolveTest, EveryInputOfAStageIsASectionOfTheFile) {
  for (const Stage stage : kAllStages) {
    const auto inputs = NewStageInputs(stage);
    const auto& type = *inputs->GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const auto* section =
          v1::SweepFile::descriptor()->FindFieldByName(type.field(i)->name());
      ASSERT_NE(section, nullptr) << type.field(i)->full_name();
      EXPECT_EQ(section->type(), type.field(i)->type());
      EXPECT_EQ(section->message_type(), type.field(i)->message_type());
    }
  }
}

// Changes the field at the end of a path to something else, whatever its type.
void Change(const std::string& path, v1::SweepFile* file) {
  Message* message = file;
  size_t start = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos;
       dot = path.find('.', start)) {
    const auto* part = message->GetDescriptor()->FindFieldByName(
        path.substr(start, dot - start));
    message = message->GetReflection()->MutableMessage(message, part);
    start = dot + 1;
  }
  const FieldDescriptor& field =
      *message->GetDescriptor()->FindFieldByName(path.substr(start));
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetField(field, 0.625, message, add);
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetField(field, true, message, add);
    case FieldDescriptor::CPPTYPE_STRING:
      return SetField(field, std::string("x"), message, add);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto& type = *field.enum_type();
      return SetField(field,
                      int64_t{type.value(type.value_count() - 1)->number()},
                      message, add);
    }
    default:
      return SetField(field, int64_t{7}, message, add);
  }
}

TEST(ResolveTest, StagesReadEveryParameterThatChangesTheirMessage) {
  SweepSpec spec;
  spec.base.mutable_prompt()->set_geometry(v1::GEOMETRY_ANGLE);
  int changed = 0;
  for (const std::string& path : LeafPaths(*v1::SweepFile::descriptor())) {
    for (const Stage stage : kAllStages) {
      v1::SweepFile cell = spec.base;
      ASSERT_OK_AND_ASSIGN(const auto before, Resolve(cell, stage));
      Change(path, &cell);
      ASSERT_OK_AND_ASSIGN(const auto after, Resolve(cell, stage));
      if (google::protobuf::util::MessageDifferencer::Equals(*before, *after))
        continue;
      ++changed;
      EXPECT_TRUE(StageReads(spec, stage, path))
          << path << " in " << StageName(stage);
    }
  }
  EXPECT_GT(changed, 60);
}

}  // namespace
}  // namespace iclsweep
