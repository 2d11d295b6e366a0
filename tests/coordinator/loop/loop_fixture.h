// A loop on a real database in a fresh directory, with simulated time and calls
// that read like function calls. The database can be looked at beside it, and
// the loop started anew as after a crash.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/loop/loop.h"
#include "proto/base/clock.h"
#include "proto/convert.h"
#include "tests/coordinator/loop/faulty_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep::testing {

// A call under way: the request and the answer live here until it is dropped.
template <typename Request, typename Response>
class Asked {
 public:
  Asked() : state_(std::make_shared<State>()) {}
  Request& request() { return state_->request; }
  Response& response() { return state_->response; }
  // Blocks until the loop has answered.
  absl::Status Wait() {
    if (!state_->status.has_value()) state_->status = state_->answer.get();
    return *state_->status;
  }
  Call<Request, Response> ToCall() {
    // The loop keeps a copy of `done`, and with it the state.
    return {&state_->request, &state_->response,
            [state = state_](absl::Status s) { state->done.set_value(s); }};
  }

 private:
  struct State {
    Request request;
    Response response;
    std::promise<absl::Status> done;
    std::future<absl::Status> answer = done.get_future();
    std::optional<absl::Status> status;
  };
  std::shared_ptr<State> state_;
};

using AskedRegister = Asked<v1::RegisterRequest, v1::RegisterResponse>;
using AskedLease = Asked<v1::LeaseRequest, v1::LeaseResponse>;
using AskedSync = Asked<v1::SyncRequest, v1::SyncResponse>;
using AskedComplete = Asked<v1::CompleteRequest, v1::CompleteResponse>;
using AskedRelease = Asked<v1::ReleaseRequest, v1::ReleaseResponse>;
using AskedCancel = Asked<v1::CancelRequest, v1::CancelResponse>;
using AskedRetry = Asked<v1::RetryRequest, v1::RetryResponse>;
using AskedSubmit = Asked<SweepSpec, v1::SubmitResponse>;

class LoopFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kLeaseUs = 30'000'000;

  void SetUp() override {
    options_.artifact_dir = dir_.Path("artifacts");
    options_.partial_dir = dir_.Path("partial");
    options_.log_dir = dir_.Path("logs");
    options_.artifact_probe = ".probe";
    options_.owner = "test";
    OpenStore();
  }
  // Before anything that a hook of a test refers to goes away.
  void TearDown() override { loop_.reset(); }
  void OpenStore() {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Store> store, OpenSqliteStore(file_));
    store_ = std::make_unique<FaultyStore>(std::move(store));
  }
  void StartLoop() {
    ASSERT_OK_AND_ASSIGN(loop_, Loop::Start(options_, store_.get(), &clock_));
  }
  // As after a crash: nothing is left but the file.
  void Restart() {
    if (loop_ != nullptr) loop_->Stop();
    loop_.reset();
    store_.reset();
    OpenStore();
    StartLoop();
  }
  std::vector<std::string> Rows(const std::string& sql) {
    return CommittedRows(file_, sql);
  }

  // ---- calls, posted

  static SweepSpec Parse(const std::string& yaml,
                         const ParseOptions& options = ParseOptions()) {
    absl::StatusOr<SweepSpec> spec = ParseSweep(yaml, "test.yaml", options);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? *std::move(spec) : SweepSpec();
  }
  AskedSubmit PostSubmit(const std::string& yaml,
                         const ParseOptions& options = ParseOptions()) {
    AskedSubmit asked;
    asked.request() = Parse(yaml, options);
    const auto call = asked.ToCall();
    loop_->Post(
        SubmitCall{asked.request(), yaml, {}, call.response, call.done});
    return asked;
  }
  AskedRegister PostRegister(const std::string& slot,
                             const std::vector<LeaseProgress>& held = {}) {
    AskedRegister asked;
    asked.request().set_slot_uuid(slot);
    asked.request().set_slot_name(absl::StrCat("host/", slot));
    asked.request().set_format_version(kKeyFormatVersion);
    for (const Stage stage : kAllStages) {
      v1::StageNumerics* numerics = asked.request().add_numerics();
      numerics->set_stage(std::string(StageName(stage)));
      numerics->set_version(NumericsVersion(stage));
    }
    for (const LeaseProgress& progress : held)
      *asked.request().add_held() = ToWire(progress);
    loop_->Post(asked.ToCall());
    return asked;
  }
  AskedLease PostLease(int64_t worker, const std::string& request,
                       uint32_t wait_ms) {
    AskedLease asked;
    asked.request().set_worker_id(worker);
    asked.request().set_request_id(request);
    asked.request().set_wait_ms(wait_ms);
    loop_->Post(asked.ToCall());
    return asked;
  }
  AskedSync PostSync(int64_t worker,
                     const std::vector<LeaseProgress>& held = {}) {
    AskedSync asked;
    asked.request().set_worker_id(worker);
    for (const LeaseProgress& progress : held)
      *asked.request().add_held() = ToWire(progress);
    loop_->Post(asked.ToCall());
    return asked;
  }
  AskedCancel PostCancel(const std::string& sweep) {
    AskedCancel asked;
    asked.request().set_sweep(sweep);
    loop_->Post(asked.ToCall());
    return asked;
  }
  AskedRetry PostRetry(const std::string& sweep, const std::string& cause) {
    AskedRetry asked;
    asked.request().set_sweep(sweep);
    asked.request().set_cause(cause);
    loop_->Post(asked.ToCall());
    return asked;
  }
  AskedComplete PostComplete(int64_t worker, const Completion& completion) {
    AskedComplete asked;
    asked.request().set_worker_id(worker);
    *asked.request().add_completions() = ToWire(completion);
    loop_->Post(asked.ToCall());
    return asked;
  }

  // ---- calls, answered

  v1::SubmitResponse Submit(const std::string& yaml) {
    AskedSubmit asked = PostSubmit(yaml);
    EXPECT_OK(asked.Wait());
    return asked.response();
  }
  v1::CancelResponse Cancel(const std::string& sweep) {
    AskedCancel asked = PostCancel(sweep);
    EXPECT_OK(asked.Wait());
    return asked.response();
  }
  v1::RetryResponse Retry(const std::string& sweep,
                          const std::string& cause = "") {
    AskedRetry asked = PostRetry(sweep, cause);
    EXPECT_OK(asked.Wait());
    return asked.response();
  }
  // The new worker's id.
  int64_t Register(const std::string& slot,
                   const std::vector<LeaseProgress>& held = {}) {
    AskedRegister asked = PostRegister(slot, held);
    EXPECT_OK(asked.Wait());
    return asked.response().worker_id();
  }
  // One job; without waiting, so that job_id is 0 when there is none.
  v1::LeasedJob Lease(int64_t worker) {
    AskedLease asked =
        PostLease(worker, absl::StrCat("request-", ++requests_), 0);
    EXPECT_OK(asked.Wait());
    return asked.response().jobs_size() == 1 ? asked.response().jobs(0)
                                             : v1::LeasedJob();
  }
  v1::SyncResponse Sync(int64_t worker,
                        const std::vector<LeaseProgress>& held = {}) {
    AskedSync asked = PostSync(worker, held);
    EXPECT_OK(asked.Wait());
    return asked.response();
  }
  v1::CompletionVerdict Complete(int64_t worker, const Completion& completion) {
    AskedComplete asked = PostComplete(worker, completion);
    EXPECT_OK(asked.Wait());
    EXPECT_EQ(asked.response().verdicts_size(), 1);
    return asked.response().verdicts_size() == 1
               ? asked.response().verdicts(0)
               : v1::COMPLETION_VERDICT_UNSPECIFIED;
  }

  std::string DatabaseUuid() {
    const std::vector<std::string> rows =
        Rows("SELECT value FROM meta WHERE name = 'database_uuid'");
    return rows.empty() ? "" : rows[0];
  }
  static LeaseRef RefOf(const v1::LeasedJob& job) {
    return {JobId{job.job_id()}, job.attempt()};
  }
  Completion Done(const v1::LeasedJob& job, double value = 1) {
    Completion completion =
        DoneCompletion(RefOf(job), *JobKeyFromBytes(job.job_key()),
                       {MeasurementOf("noop", "index", value)});
    completion.database_uuid = DatabaseUuid();
    if (job.has_train())
      completion.result.artifact = Artifact{"some/path", "c0ffee", 5};
    return completion;
  }
  Completion Failed(const v1::LeasedJob& job, Cause cause) {
    Completion completion = Done(job);
    completion.outcome = AttemptOutcome::kFailed;
    completion.cause = cause;
    completion.message = "told so";
    completion.result = StageResult();
    return completion;
  }

  TempDir dir_;
  const std::string file_ = dir_.Path("iclsweep.db");
  LoopOptions options_;
  SimulatedClock clock_;
  std::unique_ptr<FaultyStore> store_;  // outlives the loop
  std::unique_ptr<Loop> loop_;
  int requests_ = 0;
};

// One training, and one job that needs its checkpoint.
inline constexpr char kTrainThenEvaluate[] =
    "name: t\nmodel: {layers: 1, heads: 1, width: 8}\ndata: {dims: 2}\n"
    "train: {points: 16, steps: 10}\nprompt: {tasks: 2}\n"
    "evaluate: {prompts: 4}\n";

// A sweep of `cells` cells, each with one noop job of its own.
inline std::string NoopSweep(const std::string& name, int cells,
                             const std::string& more = "") {
  return absl::StrCat("name: ", name, "\ngrid: {noop.index: {range: [0, ",
                      cells, "]}}\nnoop: {}\n", more);
}

}  // namespace iclsweep::testing
