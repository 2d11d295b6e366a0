#include "worker/link/grpc_link.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <semaphore>
#include <thread>

#include "absl/strings/str_cat.h"
#include "iclsweep/v1/worker.grpc.pb.h"
#include "proto/canonical.h"
#include "proto/convert.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

// Keeps the last request of each kind and answers what it was given.
class FakeService final : public v1::WorkerService::Service {
 public:
  grpc::Status answer = grpc::Status::OK;
  v1::RegisterRequest registered;
  v1::RegisterResponse register_response;
  v1::LeaseRequest leased;
  v1::LeaseResponse lease_response;
  v1::SyncRequest synced;
  v1::SyncResponse sync_response;
  v1::CompleteRequest completed;
  v1::CompleteResponse complete_response;
  v1::ReleaseRequest released;
  bool has_deadline = false;
  // With `hold`, Lease announces itself and waits.
  bool hold = false;
  std::binary_semaphore entered{0};
  std::binary_semaphore go{0};

  grpc::Status Register(grpc::ServerContext* context,
                        const v1::RegisterRequest* request,
                        v1::RegisterResponse* response) override {
    return Answer(context, request, &registered, register_response, response);
  }
  grpc::Status Lease(grpc::ServerContext* context,
                     const v1::LeaseRequest* request,
                     v1::LeaseResponse* response) override {
    if (hold) {
      entered.release();
      go.acquire();
    }
    return Answer(context, request, &leased, lease_response, response);
  }
  grpc::Status Sync(grpc::ServerContext* context,
                    const v1::SyncRequest* request,
                    v1::SyncResponse* response) override {
    return Answer(context, request, &synced, sync_response, response);
  }
  grpc::Status Complete(grpc::ServerContext* context,
                        const v1::CompleteRequest* request,
                        v1::CompleteResponse* response) override {
    return Answer(context, request, &completed, complete_response, response);
  }
  grpc::Status Release(grpc::ServerContext* context,
                       const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    return Answer(context, request, &released, v1::ReleaseResponse(), response);
  }

 private:
  template <typename Request, typename Response>
  grpc::Status Answer(grpc::ServerContext* context, const Request* request,
                      Request* kept, const Response& canned,
                      Response* response) {
    *kept = *request;
    *response = canned;
    has_deadline =
        context->deadline() != std::chrono::system_clock::time_point::max();
    return answer;
  }
};

class GrpcLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A socket in a folder of the test's own: connecting to it ends at once.
    // Over TCP gRPC 1.51 looks at errno after other calls may have set it, and
    // a first call fails now and then; an agent asks again, these tests do not.
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    link_ = MakeGrpcLink(address_, {"build", "2.11", "cpu/avx2", 3, "host"},
                         [this](const v1::LeasedJob& job, const StageContext&) {
                           ran_.push_back(job.job_id());
                           return StageResult();
                         });
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  // A noop job with the key that its inputs have.
  static v1::LeasedJob NoopJob(int64_t id, int64_t index) {
    v1::LeasedJob job;
    job.set_job_id(id);
    job.set_attempt(2);
    job.set_stage("noop");
    job.mutable_noop()->mutable_noop()->set_index(index);
    const absl::StatusOr<JobKey> key =
        ComputeJobKey(Stage::kNoop, job.noop(), {});
    EXPECT_TRUE(key.ok()) << key.status();
    job.set_job_key(key->bytes.data(), key->bytes.size());
    return job;
  }
  LeasedWork LeaseOne(const v1::LeasedJob& job) {
    service_.lease_response.Clear();
    *service_.lease_response.add_jobs() = job;
    absl::StatusOr<LeaseReply> leased = link_->Lease(WorkerId{1}, "r", 7, 1000);
    EXPECT_TRUE(leased.ok()) << leased.status();
    EXPECT_THAT(leased->jobs, SizeIs(1));
    return leased->jobs.at(0);
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> server_;
  testing::TempDir dir_;
  const std::string address_ = absl::StrCat("unix:", dir_.Path("socket"));
  std::vector<int64_t> ran_;
  std::unique_ptr<WorkerLink> link_;
};

TEST_F(GrpcLinkTest, RegisterTellsWhoItIsAndReadsTheAnswer) {
  service_.register_response.set_worker_id(9);
  service_.register_response.set_database_uuid("uuid");
  service_.register_response.set_artifact_dir("/a");
  service_.register_response.set_partial_dir("/p");
  service_.register_response.set_log_dir("/l");
  service_.register_response.set_heartbeat_ms(1500);
  service_.register_response.set_checkpoint_every_steps(70);
  v1::HeldLease* revoked = service_.register_response.add_revoked();
  revoked->set_job_id(4);
  revoked->set_attempt(5);
  LeaseProgress held{{JobId{4}, 5}, 6, 7, 8, true};
  Predecessor predecessor;
  predecessor.progress = {{JobId{2}, 3}, 11, 12, 13, true};
  predecessor.cause = Cause::kDeviceError;
  predecessor.description = "exit status 1";
  predecessor.log_tail = "tail";
  ASSERT_OK_AND_ASSIGN(
      const Registration answer,
      link_->Register({"slot-uuid", "slot-name"}, {held}, predecessor));

  EXPECT_EQ(answer.worker, WorkerId{9});
  EXPECT_EQ(answer.database_uuid, "uuid");
  EXPECT_EQ(answer.artifact_dir, "/a");
  EXPECT_EQ(answer.partial_dir, "/p");
  EXPECT_EQ(answer.log_dir, "/l");
  EXPECT_EQ(answer.heartbeat_us, 1'500'000);
  EXPECT_EQ(answer.checkpoint_every_steps, 70);
  EXPECT_THAT(answer.revoked, ElementsAre(LeaseRef{JobId{4}, 5}));

  const v1::RegisterRequest& request = service_.registered;
  EXPECT_TRUE(service_.has_deadline);
  EXPECT_EQ(request.slot_uuid(), "slot-uuid");
  EXPECT_EQ(request.slot_name(), "slot-name");
  EXPECT_EQ(request.pid(), static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(request.format_version(), kKeyFormatVersion);
  std::vector<std::string> numerics;
  for (const v1::StageNumerics& n : request.numerics())
    numerics.push_back(absl::StrCat(n.stage(), " ", n.version()));
  EXPECT_THAT(numerics, ElementsAre("train 1", "evaluate 1", "compare 1",
                                    "theory 1", "noop 1"));
  EXPECT_EQ(request.provenance().device_kind(), "cpu/avx2");
  EXPECT_EQ(request.provenance().threads(), 3U);
  ASSERT_THAT(request.held(), SizeIs(1));
  EXPECT_EQ(request.held(0).job_id(), 4);
  EXPECT_EQ(request.held(0).attempt(), 5U);
  EXPECT_EQ(request.held(0).steps_run(), 6U);
  EXPECT_TRUE(request.held(0).checkpointed());
  EXPECT_EQ(request.predecessor().job_id(), 2);
  EXPECT_EQ(request.predecessor().attempt(), 3U);
  EXPECT_EQ(request.predecessor().steps_run(), 11U);
  EXPECT_TRUE(request.predecessor().checkpointed());
  EXPECT_EQ(request.predecessor().cause(), "device_error");
  EXPECT_EQ(request.predecessor().description(), "exit status 1");
  EXPECT_EQ(request.predecessor().log_tail(), "tail");
}

TEST_F(GrpcLinkTest, PredecessorThatRanNothingIsNotTold) {
  ASSERT_OK(link_->Register({"u", "n"}, {}, Predecessor()).status());
  EXPECT_FALSE(service_.registered.has_predecessor());
}

TEST_F(GrpcLinkTest, LeasedWorkRunsItsJob) {
  v1::LeasedJob job = NoopJob(5, 17);
  const LeasedWork work = LeaseOne(job);
  EXPECT_EQ(service_.leased.worker_id(), 1);
  EXPECT_EQ(service_.leased.request_id(), "r");
  EXPECT_EQ(service_.leased.max_jobs(), 7U);
  EXPECT_EQ(service_.leased.wait_ms(), 1U);
  EXPECT_EQ(work.lease, (LeaseRef{JobId{5}, 2}));
  EXPECT_EQ(work.stage, Stage::kNoop);
  EXPECT_EQ(ToHex(work.key), ToHex(*JobKeyFromBytes(job.job_key())));
  EXPECT_THAT(ran_, IsEmpty());
  EXPECT_OK(work.run(StageContext()).status());
  EXPECT_THAT(ran_, ElementsAre(5));
}

TEST_F(GrpcLinkTest, NothingToDoIsAnEmptyLease) {
  ASSERT_OK_AND_ASSIGN(const LeaseReply reply,
                       link_->Lease(WorkerId{1}, "r", 1, 0));
  EXPECT_THAT(reply.jobs, IsEmpty());
  EXPECT_FALSE(reply.drain);
}

TEST_F(GrpcLinkTest, LeaseTellsToDrain) {
  service_.lease_response.set_drain(true);
  ASSERT_OK_AND_ASSIGN(const LeaseReply reply,
                       link_->Lease(WorkerId{1}, "r", 1, 0));
  EXPECT_TRUE(reply.drain);
}

TEST_F(GrpcLinkTest, ArtifactsOfDependenciesArePassedOn) {
  v1::LeasedJob job = NoopJob(5, 1);
  v1::Dependency* train = job.add_dependencies();
  train->set_job_key(std::string(32, 'k'));
  train->set_artifact_path("ab/cd");
  train->set_artifact_sha256("5a5a");
  job.add_dependencies()->set_job_key(std::string(32, 'l'));
  const LeasedWork work = LeaseOne(job);
  ASSERT_THAT(work.input_artifacts, SizeIs(1));
  EXPECT_EQ(work.input_artifacts[0].path, "ab/cd");
  EXPECT_EQ(work.input_artifacts[0].sha256, "5a5a");
}

TEST_F(GrpcLinkTest, JobThatIsNotWhatItsKeySaysIsNeverRun) {
  const struct {
    const char* message;
    void (*spoil)(v1::LeasedJob*);
  } cases[] = {
      {"its key is not the hash",
       [](v1::LeasedJob* job) {
         job->mutable_noop()->mutable_noop()->set_index(99);
       }},
      {"its key is not the hash",
       [](v1::LeasedJob* job) { job->set_job_key(std::string(32, 'x')); }},
      {"its key is not the hash",
       [](v1::LeasedJob* job) { job->clear_job_key(); }},
      // A key covers those of the dependencies.
      {"its key is not the hash",
       [](v1::LeasedJob* job) {
         job->add_dependencies()->set_job_key(std::string(32, 'd'));
       }},
      {"a dependency has no key",
       [](v1::LeasedJob* job) { job->add_dependencies(); }},
      {"does not match its inputs",
       [](v1::LeasedJob* job) { job->set_stage("train"); }},
      {"does not match its inputs",
       [](v1::LeasedJob* job) { job->set_stage("a later stage"); }},
      {"does not match its inputs",
       [](v1::LeasedJob* job) { job->clear_inputs(); }},
  };
  for (const auto& c : cases) {
    v1::LeasedJob job = NoopJob(5, 17);
    c.spoil(&job);
    EXPECT_THAT(
        LeaseOne(job).run(StageContext()).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
  EXPECT_THAT(ran_, IsEmpty());
}

TEST_F(GrpcLinkTest, SyncSendsProgressAndReadsOrders) {
  service_.sync_response.set_register_again(true);
  service_.sync_response.set_drain(true);
  service_.sync_response.set_drain_now(true);
  v1::HeldLease* revoked = service_.sync_response.add_revoked();
  revoked->set_job_id(4);
  revoked->set_attempt(5);
  ASSERT_OK_AND_ASSIGN(
      const SyncReply reply,
      link_->Sync(WorkerId{3}, {LeaseProgress{{JobId{4}, 5}, 6, 7, 8, true}}));
  EXPECT_TRUE(reply.register_again);
  EXPECT_TRUE(reply.drain);
  EXPECT_TRUE(reply.drain_now);
  EXPECT_THAT(reply.revoked, ElementsAre(LeaseRef{JobId{4}, 5}));
  EXPECT_EQ(service_.synced.worker_id(), 3);
  ASSERT_THAT(service_.synced.held(), SizeIs(1));
  EXPECT_EQ(service_.synced.held(0).steps_done(), 7U);
  EXPECT_EQ(service_.synced.held(0).steps_total(), 8U);
}

TEST_F(GrpcLinkTest, SpooledBytesArriveAsTheCompletionTheyWere) {
  Completion completion;
  completion.lease = {JobId{4}, 5};
  completion.database_uuid = "uuid";
  completion.result.measurements.emplace_back();
  const std::string encoded = link_->Encode(completion);
  const struct {
    v1::CompletionVerdict verdict;
    Delivery delivery;
  } cases[] = {
      {v1::COMPLETION_VERDICT_COMMITTED, Delivery::kCommitted},
      {v1::COMPLETION_VERDICT_ALREADY_COMMITTED, Delivery::kAlreadyCommitted},
      {v1::COMPLETION_VERDICT_STALE, Delivery::kStale},
  };
  for (const auto& c : cases) {
    service_.complete_response.Clear();
    service_.complete_response.add_verdicts(c.verdict);
    ASSERT_OK_AND_ASSIGN(const std::vector<Delivery> deliveries,
                         link_->Complete(WorkerId{3}, {encoded}));
    EXPECT_THAT(deliveries, ElementsAre(c.delivery));
  }
  EXPECT_EQ(service_.completed.worker_id(), 3);
  ASSERT_THAT(service_.completed.completions(), SizeIs(1));
  EXPECT_EQ(service_.completed.completions(0).SerializeAsString(),
            ToWire(completion).SerializeAsString());
}

TEST_F(GrpcLinkTest, UnreadableSpoolBytesAreRefusedWithoutACall) {
  EXPECT_THAT(link_->Complete(WorkerId{3}, {"\xff\xff"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("spooled result")));
  EXPECT_EQ(service_.completed.worker_id(), 0);
}

TEST_F(GrpcLinkTest, ResultsHandedInTogetherAreAnsweredEach) {
  Completion completion;
  completion.lease = {JobId{4}, 5};
  const std::string first = link_->Encode(completion);
  completion.lease = {JobId{6}, 1};
  const std::string second = link_->Encode(completion);
  service_.complete_response.add_verdicts(v1::COMPLETION_VERDICT_STALE);
  service_.complete_response.add_verdicts(v1::COMPLETION_VERDICT_COMMITTED);
  ASSERT_OK_AND_ASSIGN(const std::vector<Delivery> deliveries,
                       link_->Complete(WorkerId{3}, {first, second}));
  EXPECT_THAT(deliveries, ElementsAre(Delivery::kStale, Delivery::kCommitted));
  ASSERT_THAT(service_.completed.completions(), SizeIs(2));
  EXPECT_EQ(service_.completed.completions(1).job_id(), 6);
}

TEST_F(GrpcLinkTest, AnswerWithTooFewVerdictsIsInternal) {
  EXPECT_THAT(
      link_->Complete(WorkerId{3}, {""}).status(),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("as many verdicts")));
}

TEST_F(GrpcLinkTest, ReleaseNamesLeaseCauseAndSteps) {
  ASSERT_OK(
      link_->Release(WorkerId{3}, {{{JobId{4}, 5}, 600}}, Cause::kPreempted));
  ASSERT_THAT(service_.released.leases(), SizeIs(1));
  EXPECT_EQ(service_.released.worker_id(), 3);
  EXPECT_EQ(service_.released.leases(0).job_id(), 4);
  EXPECT_EQ(service_.released.leases(0).attempt(), 5U);
  EXPECT_EQ(service_.released.leases(0).cause(), "preempted");
  EXPECT_EQ(service_.released.leases(0).steps_run(), 600U);
}

TEST_F(GrpcLinkTest, CodesOfTheCoordinatorComeThrough) {
  service_.answer = grpc::Status(grpc::StatusCode::NOT_FOUND, "who");
  EXPECT_THAT(link_->Lease(WorkerId{1}, "r", 1, 0).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("who")));
  service_.answer = grpc::Status(grpc::StatusCode::UNAVAILABLE, "later");
  EXPECT_THAT(link_->Sync(WorkerId{1}, {}).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("later")));
}

TEST_F(GrpcLinkTest, CoordinatorThatIsNotThereIsUnavailable) {
  server_->Shutdown();
  server_.reset();
  const std::unique_ptr<WorkerLink> link = MakeGrpcLink(address_, {}, nullptr);
  EXPECT_EQ(link->Sync(WorkerId{1}, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GrpcLinkTest, CancelEndsWhatWaitsAndRefusesWhatComes) {
  service_.hold = true;
  absl::Status waiting;
  std::jthread caller([&] {
    waiting = link_->Lease(WorkerId{1}, "r", 1, 20'000'000).status();
  });
  service_.entered.acquire();
  link_->Cancel();
  caller.join();  // while the server still holds the call
  EXPECT_EQ(waiting.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(link_->Sync(WorkerId{1}, {}).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(service_.synced.worker_id(), 0);
  service_.go.release();
}

TEST_F(GrpcLinkTest, LastWordsAreSaidAfterCancelToo) {
  link_->Cancel();
  ASSERT_OK(
      link_->Release(WorkerId{3}, {{{JobId{4}, 5}, 6}}, Cause::kPreempted));
  EXPECT_THAT(service_.released.leases(), SizeIs(1));
  EXPECT_FALSE(service_.released.leaving());
  ASSERT_OK(link_->Leave(WorkerId{7}));
  EXPECT_TRUE(service_.has_deadline);
  EXPECT_EQ(service_.released.worker_id(), 7);
  EXPECT_TRUE(service_.released.leaving());
  EXPECT_THAT(service_.released.leases(), IsEmpty());
}

}  // namespace
}  // namespace iclsweep
