#include "tests/coordinator/service/service_fixture.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NoopSweep;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::StatusIs;

class SweepServiceTest : public testing::ServiceFixture {
 protected:
  void SetUp() override { Start(Options()); }
  // Leases one job and hands it in, done or failed.
  void RunOne(int64_t worker, bool done, const std::string& message = "") {
    const std::unique_ptr<Poll> poll =
        StartPoll(worker, absl::StrCat("r", ++requests_));
    ASSERT_OK(poll->Wait());
    ASSERT_THAT(poll->response.jobs(), SizeIs(1));
    const v1::LeasedJob& job = poll->response.jobs(0);
    grpc::ClientContext context;
    v1::CompleteRequest request;
    v1::Completion* completion = request.add_completions();
    completion->set_job_id(job.job_id());
    completion->set_job_key(job.job_key());
    completion->set_attempt(job.attempt());
    completion->set_database_uuid(
        Rows("SELECT value FROM meta WHERE name = 'database_uuid'").at(0));
    completion->set_outcome(done ? "done" : "failed");
    if (!done) completion->set_cause("invalid");
    completion->set_message(message);
    v1::CompleteResponse response;
    ASSERT_OK(FromGrpcStatus(workers_->Complete(&context, request, &response)));
    ASSERT_THAT(response.verdicts(),
                ElementsAre(v1::COMPLETION_VERDICT_COMMITTED));
  }
  absl::StatusOr<v1::ExplainResponse> Explain(
      const v1::ExplainRequest& request) {
    grpc::ClientContext context;
    v1::ExplainResponse response;
    const absl::Status status =
        FromGrpcStatus(sweeps_->Explain(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  int requests_ = 0;
};

TEST_F(SweepServiceTest, BadFileIsRefusedWithItsPlace) {
  v1::SubmitResponse response;
  EXPECT_THAT(Submit("name: s\nnoop:\n  indx: 1\n", &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("my.yaml:3:3: ")));
  EXPECT_THAT(
      Submit("name: s\nnoop: [1,\n", &response),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("my.yaml:")));
  EXPECT_THAT(
      Submit("", &response),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("my.yaml")));
  EXPECT_THAT(Rows("SELECT count(*) FROM sweep"), ElementsAre("0"));
}

TEST_F(SweepServiceTest, GridLargerThanTheCallersLimitIsRefused) {
  v1::SubmitResponse response;
  EXPECT_THAT(Submit(NoopSweep("s", 0, 11), &response, 10),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("11")));
  EXPECT_OK(Submit(NoopSweep("s", 0, 11), &response, 11));
}

TEST_F(SweepServiceTest, SubmitCountsJobsAndThoseDoneBefore) {
  v1::SubmitResponse response;
  ASSERT_OK(Submit(NoopSweep("first", 0, 2), &response));
  EXPECT_EQ(response.name(), "first");
  EXPECT_EQ(response.cells(), 2U);
  EXPECT_EQ(response.jobs(), 2U);
  EXPECT_EQ(response.jobs_done(), 0U);
  RunOne(Register("slot"), /*done=*/true);
  v1::SubmitResponse second;
  ASSERT_OK(Submit(NoopSweep("second", 0, 5), &second));
  EXPECT_EQ(second.jobs(), 5U);
  EXPECT_EQ(second.jobs_done(), 1U);
  v1::SubmitResponse again;
  ASSERT_OK(Submit(NoopSweep("second", 0, 5), &again));
  EXPECT_TRUE(again.resumed());
  EXPECT_EQ(again.jobs(), 5U);
}

TEST_F(SweepServiceTest, ChangedSweepIsAFailedPrecondition) {
  v1::SubmitResponse response;
  ASSERT_OK(Submit(NoopSweep("s", 0, 2), &response));
  EXPECT_THAT(Submit(NoopSweep("s", 0, 3), &response),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("grid noop.index")));
}

TEST_F(SweepServiceTest, UnknownSweepIsNotFound) {
  EXPECT_THAT(Status("").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no sweep yet")));
  v1::SubmitResponse response;
  ASSERT_OK(Submit(NoopSweep("s", 0, 1), &response));
  EXPECT_THAT(Status("nope").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nope'")));
}

TEST_F(SweepServiceTest, StagesAreListedInTheOrderInWhichTheyRun) {
  v1::SubmitResponse response;
  ASSERT_OK(
      Submit("name: s\nmodel: {layers: 1, heads: 1, width: 8}\n"
             "data: {dims: 2}\ntrain: {points: 16, steps: 10}\n"
             "prompt: {tasks: 2}\nevaluate: {prompts: 4}\n"
             "compare: {tasks: 2}\ntheory: {}\n",
             &response));
  ASSERT_OK_AND_ASSIGN(const v1::StatusResponse status, Status("s"));
  std::vector<std::string> stages;
  for (const v1::StageProgress& stage : status.sweeps(0).stages())
    stages.push_back(stage.stage());
  EXPECT_THAT(stages,
              ::testing::ElementsAre("train", "evaluate", "compare", "theory"));
}

TEST_F(SweepServiceTest, StatusCountsStatesAndEndsFinished) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 2), &submitted));
  const int64_t worker = Register("slot");
  RunOne(worker, /*done=*/true);
  ASSERT_OK_AND_ASSIGN(v1::StatusResponse status, Status("s"));
  ASSERT_THAT(status.sweeps(), SizeIs(1));
  EXPECT_EQ(status.workers(), 1U);
  EXPECT_EQ(status.epoch(), 1U);
  const v1::SweepStatus& half = status.sweeps(0);
  EXPECT_EQ(half.cells(), 2U);
  EXPECT_FALSE(half.expanding());
  EXPECT_FALSE(half.finished());
  ASSERT_THAT(half.stages(), SizeIs(1));
  EXPECT_EQ(half.stages(0).stage(), "noop");
  EXPECT_EQ(half.stages(0).total(), 2U);
  EXPECT_EQ(half.stages(0).done(), 1U);
  EXPECT_EQ(half.stages(0).ready(), 1U);
  RunOne(worker, /*done=*/false, "cannot be done");
  ASSERT_OK_AND_ASSIGN(status, Status("s"));
  EXPECT_TRUE(status.sweeps(0).finished());
  EXPECT_EQ(status.sweeps(0).stages(0).failed(), 1U);
  EXPECT_THAT(status.sweeps(0).first_failures(),
              ElementsAre("cell 1, noop: invalid: cannot be done"));
}

TEST_F(SweepServiceTest, EmptyNameIsTheNewestSweep) {
  v1::SubmitResponse response;
  ASSERT_OK(Submit(NoopSweep("older", 0, 1), &response));
  ASSERT_OK(Submit(NoopSweep("newer", 0, 1), &response));
  ASSERT_OK_AND_ASSIGN(const v1::StatusResponse status, Status(""));
  EXPECT_EQ(status.sweeps(0).name(), "newer");
}

TEST_F(SweepServiceTest, ExplainFindsACellsJobsAndHowTheyFailed) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 2), &submitted));
  RunOne(Register("slot"), /*done=*/false, "cannot be done");
  v1::ExplainRequest request;
  request.set_cell(0);
  ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse cell, Explain(request));
  EXPECT_EQ(cell.sweep(), "s");
  ASSERT_THAT(cell.jobs(), SizeIs(1));
  EXPECT_EQ(cell.jobs(0).state(), "failed");
  EXPECT_EQ(cell.jobs(0).reason(),
            "failed with attempt 1: invalid: cannot be done");
  request.set_cell(7);
  EXPECT_THAT(Explain(request).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("sweep s has no cell 7")));
}

TEST_F(SweepServiceTest, ExplainFindsAJobByItsIdOrKey) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 2), &submitted));
  const std::string key =
      Rows("SELECT lower(hex(key)) FROM job WHERE job_id = 2")[0];
  for (const std::string& job : {std::string("2"), key, key.substr(0, 9)}) {
    v1::ExplainRequest request;
    request.set_job(job);
    ASSERT_OK_AND_ASSIGN(const v1::ExplainResponse found, Explain(request));
    ASSERT_THAT(found.jobs(), SizeIs(1));
    EXPECT_EQ(found.jobs(0).job_id(), 2) << job;
    EXPECT_EQ(found.jobs(0).key(), key);
  }
  const struct {
    const char* job;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {"9", absl::StatusCode::kNotFound, "there is no job 9"},
      {"ffffffff0", absl::StatusCode::kNotFound, "begins with ffffffff0"},
      {"abc", absl::StatusCode::kInvalidArgument, "'abc'"},
  };
  for (const auto& c : cases) {
    v1::ExplainRequest request;
    request.set_job(c.job);
    EXPECT_THAT(Explain(request).status(),
                StatusIs(c.code, HasSubstr(c.message)));
  }
}

// ---- watching

TEST_F(SweepServiceTest, WatchTellsEventsAndEndsWithTheSweep) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 1), &submitted));
  grpc::ClientContext context;
  v1::WatchRequest request;
  auto stream = sweeps_->Watch(&context, request);
  v1::WatchResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.status().name(), "s");
  EXPECT_FALSE(response.status().finished());
  std::vector<std::string> kinds;
  const auto note = [&] {
    for (const v1::Event& event : response.events())
      kinds.push_back(event.kind());
  };
  note();
  RunOne(Register("slot"), /*done=*/true);
  while (stream->Read(&response)) note();
  EXPECT_OK(FromGrpcStatus(stream->Finish()));
  EXPECT_TRUE(response.status().finished());
  EXPECT_THAT(kinds, ElementsAre("sweep_submitted", "sweep_expanded",
                                 "worker_registered", "sweep_finished"));
  // Going on after what was read: nothing twice.
  grpc::ClientContext again;
  request.set_after_sequence(response.sequence() - 1);
  stream = sweeps_->Watch(&again, request);
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_THAT(response.events(), SizeIs(1));
  EXPECT_EQ(response.events(0).kind(), "sweep_finished");
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_OK(FromGrpcStatus(stream->Finish()));
}

TEST_F(SweepServiceTest, WatchTellsNothingOfOtherSweeps) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("mine", 0, 1), &submitted));
  ASSERT_OK(Submit(NoopSweep("other", 5, 6), &submitted));
  const int64_t worker = Register("slot");
  RunOne(worker, /*done=*/true);
  RunOne(worker, /*done=*/false, "of another sweep");
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_sweep("mine");
  const auto stream = sweeps_->Watch(&context, request);
  v1::WatchResponse response;
  while (stream->Read(&response)) {
    for (const v1::Event& event : response.events()) {
      EXPECT_NE(event.sweep(), "other") << event.kind();
      EXPECT_NE(event.kind(), "attempt_failed");
    }
  }
  EXPECT_OK(FromGrpcStatus(stream->Finish()));
}

TEST_F(SweepServiceTest, WatchOfAnUnknownSweepIsNotFound) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_sweep("none");
  const auto stream = sweeps_->Watch(&context, request);
  v1::WatchResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(FromGrpcStatus(stream->Finish()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
}

TEST_F(SweepServiceTest, StoppingEndsTheStreams) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 1), &submitted));
  grpc::ClientContext context;
  const auto stream = sweeps_->Watch(&context, v1::WatchRequest());
  v1::WatchResponse response;
  ASSERT_TRUE(stream->Read(&response));
  coordinator_->Stop();
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(FromGrpcStatus(stream->Finish()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stopping")));
}

TEST_F(SweepServiceTest, CancelledStreamIsForgotten) {
  v1::SubmitResponse submitted;
  ASSERT_OK(Submit(NoopSweep("s", 0, 1), &submitted));
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto stream = sweeps_->Watch(&context, v1::WatchRequest());
    v1::WatchResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  coordinator_->Stop();  // hangs when one is still under way
}

}  // namespace
}  // namespace iclsweep
