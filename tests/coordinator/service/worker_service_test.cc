#include "tests/coordinator/service/service_fixture.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NoopSweep;
using ::testing::SizeIs;
using testing::StatusIs;

class WorkerServiceTest : public testing::ServiceFixture {
 protected:
  void SetUp() override { Start(Options()); }
  void SubmitOne(int index) {
    v1::SubmitResponse response;
    ASSERT_OK(Submit(NoopSweep(absl::StrCat("s", index), index, index + 1),
                     &response));
  }
};

TEST_F(WorkerServiceTest, RequestsWithoutIdentityAreRefused) {
  grpc::ClientContext register_context;
  v1::RegisterResponse registered;
  EXPECT_THAT(
      FromGrpcStatus(workers_->Register(&register_context, {}, &registered)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("register.slot_uuid")));
  grpc::ClientContext lease_context;
  v1::LeaseResponse leased;
  EXPECT_THAT(FromGrpcStatus(workers_->Lease(&lease_context, {}, &leased)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("lease.request_id")));
}

TEST_F(WorkerServiceTest, ParkedPollGetsTheJobThatArrives) {
  const int64_t worker = Register("slot");
  const std::unique_ptr<Poll> poll = StartPoll(worker, "r");
  RoundTrip(worker);
  SubmitOne(1);
  ASSERT_OK(poll->Wait());
  ASSERT_THAT(poll->response.jobs(), SizeIs(1));
  EXPECT_TRUE(poll->response.jobs(0).has_noop());
}

TEST_F(WorkerServiceTest, CancelledPollGetsNoJob) {
  const int64_t worker = Register("slot");
  // gRPC tells the server of a cancellation on a thread of its own, so a round
  // may come too early for it; without the telling, every round would lease.
  std::string state;
  for (int round = 1; round <= 20 && state != "ready"; ++round) {
    const std::unique_ptr<Poll> poll =
        StartPoll(worker, absl::StrCat("r", round));
    RoundTrip(worker);
    poll->context.TryCancel();
    EXPECT_THAT(poll->Wait(),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
    for (int i = 0; i < 5; ++i) RoundTrip(worker);
    SubmitOne(round);
    state = Rows("SELECT state FROM job ORDER BY job_id DESC LIMIT 1").at(0);
  }
  EXPECT_EQ(state, "ready");
}

TEST_F(WorkerServiceTest, UnknownWorkerIsNotFound) {
  const std::unique_ptr<Poll> poll = StartPoll(4711, "r");
  EXPECT_THAT(poll->Wait(), StatusIs(absl::StatusCode::kNotFound,
                                     HasSubstr("not registered")));
}

TEST_F(WorkerServiceTest, ReleasedLeaseIsReadyAgain) {
  SubmitOne(1);
  const int64_t worker = Register("slot");
  const std::unique_ptr<Poll> poll = StartPoll(worker, "r");
  ASSERT_OK(poll->Wait());
  grpc::ClientContext context;
  v1::ReleaseRequest request;
  request.set_worker_id(worker);
  v1::ReleasedLease* lease = request.add_leases();
  lease->set_job_id(poll->response.jobs(0).job_id());
  lease->set_attempt(1);
  lease->set_cause("preempted");
  v1::ReleaseResponse response;
  ASSERT_OK(FromGrpcStatus(workers_->Release(&context, request, &response)));
  EXPECT_THAT(Rows("SELECT state FROM job"), ElementsAre("ready"));
  EXPECT_THAT(Rows("SELECT outcome, cause FROM attempt"),
              ElementsAre("released|preempted"));
}

}  // namespace
}  // namespace iclsweep
