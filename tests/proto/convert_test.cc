#include "proto/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

uint64_t Bits(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Completion FullCompletion() {
  Completion c;
  c.lease = {JobId{(int64_t{1} << 40) + 3}, 4'000'000'000U};
  for (size_t i = 0; i < c.key.bytes.size(); ++i)
    c.key.bytes[i] = static_cast<uint8_t>(255 - i * 8);
  c.database_uuid = "uuid";
  c.outcome = AttemptOutcome::kFailed;
  c.cause = Cause::kOutOfMemory;
  c.message = "no memory";
  c.steps_run = uint64_t{1} << 50;
  c.duration_us = int64_t{1} << 45;
  c.result.non_finite = true;
  c.result.extrapolated = true;
  Measurement m;
  m.predictor = "model";
  m.name = "G";
  m.task = 1;
  m.position = 2;
  m.layer = 3;
  m.head = 4;
  m.value = 0.1;
  m.standard_error = 0.2;
  m.n = 3200;
  c.result.measurements = {m, Measurement()};
  c.result.curve = {{"loss", 100, 0.3}, {"loss", 200, 0.4}};
  c.result.artifact = Artifact{"path", "sha", int64_t{1} << 35};
  c.provenance = {"build", "2.11", "cpu/avx2", 7, "host"};
  return c;
}

// Over the wire and back.
absl::StatusOr<Completion> RoundTrip(const Completion& completion) {
  v1::Completion read;
  EXPECT_TRUE(read.ParseFromString(ToWire(completion).SerializeAsString()));
  return FromWire(read);
}

void ExpectSame(const Measurement& a, const Measurement& b) {
  EXPECT_EQ(a.predictor, b.predictor);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.task, b.task);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.head, b.head);
  EXPECT_EQ(Bits(a.value), Bits(b.value));
  EXPECT_EQ(Bits(a.standard_error), Bits(b.standard_error));
  EXPECT_EQ(a.n, b.n);
}

void ExpectSame(const Completion& a, const Completion& b) {
  EXPECT_EQ(a.lease, b.lease);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.database_uuid, b.database_uuid);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.cause, b.cause);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.steps_run, b.steps_run);
  EXPECT_EQ(a.duration_us, b.duration_us);
  EXPECT_EQ(a.result.non_finite, b.result.non_finite);
  EXPECT_EQ(a.result.extrapolated, b.result.extrapolated);
  ASSERT_EQ(a.result.measurements.size(), b.result.measurements.size());
  for (size_t i = 0; i < a.result.measurements.size(); ++i)
    ExpectSame(a.result.measurements[i], b.result.measurements[i]);
  ASSERT_EQ(a.result.curve.size(), b.result.curve.size());
  for (size_t i = 0; i < a.result.curve.size(); ++i) {
    EXPECT_EQ(a.result.curve[i].name, b.result.curve[i].name);
    EXPECT_EQ(a.result.curve[i].step, b.result.curve[i].step);
    EXPECT_EQ(Bits(a.result.curve[i].value), Bits(b.result.curve[i].value));
  }
  ASSERT_EQ(a.result.artifact.has_value(), b.result.artifact.has_value());
  if (a.result.artifact.has_value()) {
    EXPECT_EQ(a.result.artifact->path, b.result.artifact->path);
    EXPECT_EQ(a.result.artifact->sha256, b.result.artifact->sha256);
    EXPECT_EQ(a.result.artifact->bytes, b.result.artifact->bytes);
  }
  EXPECT_EQ(a.provenance.build, b.provenance.build);
  EXPECT_EQ(a.provenance.torch_version, b.provenance.torch_version);
  EXPECT_EQ(a.provenance.device_kind, b.provenance.device_kind);
  EXPECT_EQ(a.provenance.threads, b.provenance.threads);
  EXPECT_EQ(a.provenance.host, b.provenance.host);
}

TEST(ConvertTest, EveryFieldOfACompletionSurvives) {
  ASSERT_OK_AND_ASSIGN(const Completion read, RoundTrip(FullCompletion()));
  ExpectSame(read, FullCompletion());
}

TEST(ConvertTest, EveryWireFieldOfACompletionIsUsed) {
  // A field added to the message and forgotten in the conversion shows here.
  const v1::Completion wire = ToWire(FullCompletion());
  const google::protobuf::Descriptor* type = v1::Completion::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type->field(i);
    const auto* reflection = wire.GetReflection();
    EXPECT_TRUE(field->is_repeated() ? reflection->FieldSize(wire, field) > 0
                                     : reflection->HasField(wire, field))
        << field->full_name();
  }
}

TEST(ConvertTest, CompletionWithoutAnArtifactHasNone) {
  Completion completion = FullCompletion();
  completion.outcome = AttemptOutcome::kDone;
  completion.cause = Cause::kNone;
  completion.result.artifact = std::nullopt;
  completion.result.measurements.clear();
  completion.result.curve.clear();
  ASSERT_OK_AND_ASSIGN(const Completion read, RoundTrip(completion));
  ExpectSame(read, completion);
}

TEST(ConvertTest, NumbersKeepTheirBits) {
  using Limits = std::numeric_limits<double>;
  Completion completion = FullCompletion();
  completion.result.measurements.clear();
  completion.result.curve.clear();
  for (const double value :
       {0.0, -0.0, Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
        Limits::denorm_min(), Limits::max(), Limits::lowest(), 0.1}) {
    Measurement m;
    m.value = value;
    m.standard_error = value;
    completion.result.measurements.push_back(m);
    completion.result.curve.push_back({"c", 1, value});
  }
  ASSERT_OK_AND_ASSIGN(const Completion read, RoundTrip(completion));
  ExpectSame(read, completion);
  EXPECT_TRUE(std::signbit(read.result.measurements[1].value));
  EXPECT_TRUE(std::isnan(read.result.measurements[2].value));
}

TEST(ConvertTest, EveryCauseAndOutcomeHasItsName) {
  Completion completion = FullCompletion();
  for (int cause = 0; cause <= static_cast<int>(Cause::kDeviceError); ++cause) {
    completion.cause = static_cast<Cause>(cause);
    ASSERT_OK_AND_ASSIGN(const Completion read, RoundTrip(completion));
    EXPECT_EQ(read.cause, completion.cause);
  }
  for (const AttemptOutcome outcome :
       {AttemptOutcome::kDone, AttemptOutcome::kFailed}) {
    completion.outcome = outcome;
    ASSERT_OK_AND_ASSIGN(const Completion read, RoundTrip(completion));
    EXPECT_EQ(read.outcome, outcome);
  }
}

TEST(ConvertTest, EachBadFieldIsRefusedByName) {
  const struct {
    const char* field;
    void (*spoil)(v1::Completion*);
  } cases[] = {
      {"completion.job_key", [](v1::Completion* c) { c->clear_job_key(); }},
      {"completion.job_key",
       [](v1::Completion* c) { c->set_job_key(std::string(31, 'x')); }},
      {"completion.job_key",
       [](v1::Completion* c) { c->set_job_key(std::string(33, 'x')); }},
      {"completion.outcome", [](v1::Completion* c) { c->clear_outcome(); }},
      {"completion.outcome",
       [](v1::Completion* c) { c->set_outcome("running"); }},
      {"completion.outcome",
       [](v1::Completion* c) { c->set_outcome("released"); }},
      {"completion.outcome", [](v1::Completion* c) { c->set_outcome("DONE"); }},
      {"completion.cause", [](v1::Completion* c) { c->set_cause("bad luck"); }},
  };
  for (const auto& c : cases) {
    v1::Completion wire = ToWire(FullCompletion());
    c.spoil(&wire);
    EXPECT_THAT(
        FromWire(wire).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.field)));
  }
}

TEST(ConvertTest, ProgressSurvives) {
  LeaseProgress progress;
  progress.lease = {JobId{5}, 6};
  progress.steps_run = 7;
  progress.steps_done = 8;
  progress.steps_total = 9;
  progress.checkpointed = true;
  const LeaseProgress read = FromWire(ToWire(progress));
  EXPECT_EQ(read.lease, progress.lease);
  EXPECT_EQ(read.steps_run, 7U);
  EXPECT_EQ(read.steps_done, 8U);
  EXPECT_EQ(read.steps_total, 9U);
  EXPECT_TRUE(read.checkpointed);
}

// ---- a stage's inputs inside a lease

TEST(LeasedInputsTest, EveryStageHasItsPlace) {
  for (const Stage stage : kAllStages) {
    v1::LeasedJob job;
    ASSERT_OK(SetInputs(stage, "", &job));
    EXPECT_EQ(job.stage(), StageName(stage));
    ASSERT_OK_AND_ASSIGN(const google::protobuf::Message* inputs,
                         InputsOf(job));
    // train -> TrainInputs, ...
    std::string name(StageName(stage));
    name[0] = static_cast<char>(std::toupper(name[0]));
    EXPECT_EQ(inputs->GetDescriptor()->name(), name + "Inputs");
  }
}

TEST(LeasedInputsTest, InputsComeOutAsTheyWentIn) {
  v1::EvaluateInputs inputs;
  inputs.mutable_prompt()->set_tasks(3);
  inputs.mutable_prompt()->add_task_order(2);
  inputs.mutable_evaluate()->set_prompts(17);
  v1::LeasedJob job;
  ASSERT_OK(SetInputs(Stage::kEvaluate, inputs.SerializeAsString(), &job));
  ASSERT_OK_AND_ASSIGN(const google::protobuf::Message* read, InputsOf(job));
  EXPECT_EQ(read->SerializeAsString(), inputs.SerializeAsString());
}

TEST(LeasedInputsTest, BytesThatAreNoMessageAreInternal) {
  v1::LeasedJob job;
  EXPECT_THAT(
      SetInputs(Stage::kTrain, "\xff\xff\xff", &job),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("inputs of a train")));
}

TEST(LeasedInputsTest, StageAndInputsMustAgree) {
  v1::LeasedJob job;
  job.set_job_id(7);
  ASSERT_OK(SetInputs(Stage::kTrain, "", &job));
  for (const char* other : {"evaluate", "", "trian"}) {
    job.set_stage(other);
    EXPECT_THAT(InputsOf(job).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("job 7: stage '" + std::string(other))));
  }
  v1::LeasedJob empty;
  empty.set_stage("train");
  EXPECT_THAT(InputsOf(empty).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("train")));
}

}  // namespace
}  // namespace iclsweep
