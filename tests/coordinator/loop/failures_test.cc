// A store that fails, and a loop that stops.
#include <filesystem>
#include <semaphore>

#include "tests/coordinator/loop/loop_fixture.h"

namespace iclsweep {
namespace {

using ::testing::AnyOf;
using testing::AskedComplete;
using testing::AskedLease;
using testing::AskedRegister;
using testing::AskedSubmit;
using testing::AskedSync;
using ::testing::ElementsAre;
using testing::FaultyStore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kTrainThenEvaluate;
using testing::NoopSweep;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class LoopFailuresTest : public testing::LoopFixture {
 protected:
  void SetUp() override {
    LoopFixture::SetUp();
    store_->on_commit = [this] {
      if (!hold_.exchange(false)) return;
      reached_.release();
      gate_.acquire();
    };
    StartLoop();
  }
  // Holds the loop in the commit of a call of its own, so that what is posted
  // until LetGo is one batch.
  void HoldLoop() {
    hold_ = true;
    held_call_ = PostSync(12345);
    reached_.acquire();
  }
  void LetGo() { gate_.release(); }

 private:
  std::atomic<bool> hold_ = false;
  std::binary_semaphore reached_{0};
  std::binary_semaphore gate_{0};
  AskedSync held_call_;
};

TEST_F(LoopFailuresTest, NothingOfAFailedBatchIsKeptAndEveryCallIsUnavailable) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  AskedLease parked = PostLease(Register("idle"), "parked", 30'000);
  Sync(worker);
  const std::string everything =
      "SELECT 'job', job_id, state, last_attempt FROM job UNION ALL "
      "SELECT 'attempt', number, outcome, worker_id FROM attempt UNION ALL "
      "SELECT 'worker', worker_id, slot_uuid, epoch FROM worker UNION ALL "
      "SELECT 'sweep', sweep_id, name, revision FROM sweep UNION ALL "
      "SELECT 'result', job_id, attempt_number, 0 FROM result";
  const std::vector<std::string> before = Rows(everything);

  HoldLoop();
  store_->FailCommits(1);
  AskedComplete complete = PostComplete(worker, Done(job));
  AskedSubmit submit = PostSubmit(NoopSweep("other", 2));
  AskedRegister third = PostRegister("third");
  AskedSync sync = PostSync(worker, {LeaseProgress{RefOf(job)}});
  AskedLease lease = PostLease(worker, "next", 30'000);
  LetGo();
  const auto refused = StatusIs(kUnavailable, HasSubstr("disk is full"));
  EXPECT_THAT(complete.Wait(), refused);
  EXPECT_THAT(submit.Wait(), refused);
  EXPECT_THAT(third.Wait(), refused);
  EXPECT_THAT(sync.Wait(), refused);
  EXPECT_THAT(lease.Wait(), refused);
  EXPECT_THAT(parked.Wait(), refused);  // of an earlier batch: ask again
  EXPECT_EQ(Rows(everything), before);

  // The worker kept its result, and everything goes on as after a restart.
  EXPECT_TRUE(Sync(worker, {LeaseProgress{RefOf(job)}}).register_again());
  const int64_t again = Register("slot", {LeaseProgress{RefOf(job)}});
  EXPECT_EQ(Complete(again, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_EQ(Submit(NoopSweep("other", 2)).resumed(), false);
  EXPECT_EQ(Lease(again).attempt(), 1U);
  EXPECT_TRUE(loop_->healthy());
  EXPECT_EQ(loop_->status(), absl::OkStatus());
  EXPECT_THAT(Rows("SELECT text FROM event WHERE kind = 'store_recovered'"),
              ElementsAre(HasSubstr("disk is full")));
}

TEST_F(LoopFailuresTest, ResultOfAFailedCommitIsAcceptedWhenSentAgain) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  HoldLoop();
  store_->FailCommits(3);  // and the first two tries to recover
  AskedComplete complete = PostComplete(worker, Done(job));
  LetGo();
  EXPECT_THAT(complete.Wait(), StatusIs(kUnavailable, HasSubstr("disk")));
  EXPECT_EQ(Complete(worker, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_FALSE(store_->failing());
  EXPECT_THAT(Rows("SELECT state, last_attempt FROM job"),
              ElementsAre("done|1"));
  EXPECT_THAT(Rows("SELECT count(*) FROM result"), ElementsAre("1"));
}

TEST_F(LoopFailuresTest, PartialCheckpointsOutliveAFailedCommit) {
  Submit(
      "name: t\nmodel: {layers: 1, heads: 1, width: 8}\ndata: {dims: 2}\n"
      "train: {points: 16, steps: 10}\n");
  const int64_t worker = Register("slot");
  const v1::LeasedJob job = Lease(worker);
  const std::string checkpoint =
      absl::StrCat(dir_.Path("partial"), "/",
                   ToHex(*JobKeyFromBytes(job.job_key())), "/1/step-5");
  std::filesystem::create_directories(checkpoint);
  HoldLoop();
  store_->FailCommits(3);
  AskedComplete complete = PostComplete(worker, Done(job));
  LetGo();
  EXPECT_THAT(complete.Wait(), StatusIs(kUnavailable, HasSubstr("disk")));
  Sync(worker);
  Sync(worker);  // what the first one's batch removed is gone by now
  EXPECT_TRUE(std::filesystem::exists(checkpoint));
  EXPECT_EQ(Complete(worker, Done(job)), v1::COMPLETION_VERDICT_COMMITTED);
  Sync(worker);
  EXPECT_FALSE(std::filesystem::exists(checkpoint));
}

TEST_F(LoopFailuresTest, LeaseOfAFailedCommitWasNeverGiven) {
  Submit(NoopSweep("s", 1));
  const int64_t worker = Register("slot");
  HoldLoop();
  store_->FailCommits(1);
  AskedLease lease = PostLease(worker, "r", 0);
  LetGo();
  EXPECT_THAT(lease.Wait(), StatusIs(kUnavailable, HasSubstr("disk")));
  EXPECT_THAT(Rows("SELECT 1 FROM attempt"), IsEmpty());
  // Workers without a lease are not known after the recovery.
  lease = PostLease(worker, "r", 0);
  EXPECT_THAT(lease.Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("registered")));
  EXPECT_EQ(Lease(Register("slot")).attempt(), 1U);
}

TEST_F(LoopFailuresTest, LeaseOfABatchThatFailedMidwayWasNeverGiven) {
  Submit(kTrainThenEvaluate);
  const int64_t trainer = Register("trainer");
  const v1::LeasedJob train = Lease(trainer);
  const int64_t idle = Register("idle");
  AskedLease parked = PostLease(idle, "parked", 10'000);
  Sync(trainer);
  store_->FailResult();  // after evaluate was given to the idle worker
  EXPECT_THAT(PostComplete(trainer, Done(train)).Wait(),
              StatusIs(kUnavailable, HasSubstr("disk")));
  EXPECT_THAT(parked.Wait(), StatusIs(kUnavailable, HasSubstr("disk")));
  EXPECT_THAT(PostLease(idle, "parked", 0).Wait(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("registered")));
  EXPECT_EQ(Complete(trainer, Done(train)), v1::COMPLETION_VERDICT_COMMITTED);
  EXPECT_EQ(Lease(Register("idle")).attempt(), 1U);
}

TEST_F(LoopFailuresTest, ExpansionGoesOnWhereTheDiskHadIt) {
  loop_ = nullptr;
  options_.cells_per_step = 1;
  store_->on_cells = [this, failed = false](uint64_t cells) mutable {
    if (cells == 5 && !std::exchange(failed, true)) store_->FailCommits(1);
  };
  StartLoop();
  Submit(NoopSweep("s", 10));
  while (Rows("SELECT cells_expanded FROM sweep_revision") !=
         std::vector<std::string>{"10"}) {
    AskedSync sync = PostSync(12345);
    EXPECT_THAT(sync.Wait().code(), AnyOf(absl::StatusCode::kOk, kUnavailable));
  }
  EXPECT_THAT(Rows("SELECT count(*), count(DISTINCT cell_index) FROM cell"),
              ElementsAre("10|10"));
  EXPECT_THAT(Rows("SELECT state, count(*) FROM job GROUP BY state"),
              ElementsAre("ready|10"));
}

TEST_F(LoopFailuresTest, StoreThatStaysBrokenEndsTheLoopWithItsError) {
  options_.give_up_us = 1'000'000;
  loop_ = nullptr;
  // Time passes while the disk is tried.
  store_->on_commit = [this] {
    if (store_->failing()) clock_.Advance(400'000);
  };
  StartLoop();
  Submit(NoopSweep("s", 1));
  store_->FailCommits(FaultyStore::kForEver);
  AskedRegister first = PostRegister("slot");
  EXPECT_THAT(first.Wait(), StatusIs(kUnavailable, HasSubstr("disk is full")));
  AskedRegister second = PostRegister("slot");  // waits while it tries again
  EXPECT_THAT(second.Wait(), StatusIs(kUnavailable, HasSubstr("stopping")));
  EXPECT_THAT(loop_->status(),
              StatusIs(kUnavailable, HasSubstr("disk is full")));
  EXPECT_FALSE(loop_->healthy());
  AskedRegister later = PostRegister("slot");
  EXPECT_THAT(later.Wait(), StatusIs(kUnavailable, HasSubstr("stopping")));
  EXPECT_THAT(Rows("SELECT 1 FROM worker"), IsEmpty());
}

TEST_F(LoopFailuresTest, StopAnswersParkedAndQueuedCalls) {
  const int64_t worker = Register("slot");
  AskedLease parked = PostLease(worker, "r", 30'000);
  Sync(worker);
  loop_->Stop();
  const auto stopping = StatusIs(kUnavailable, HasSubstr("stopping"));
  EXPECT_THAT(parked.Wait(), stopping);
  AskedSubmit late = PostSubmit(NoopSweep("late", 1));
  EXPECT_THAT(late.Wait(), stopping);
  loop_->Stop();
  EXPECT_EQ(loop_->status(), absl::OkStatus());
  EXPECT_THAT(Rows("SELECT 1 FROM sweep"), IsEmpty());
}

TEST_F(LoopFailuresTest, StopDoesNotWaitForABrokenStore) {
  store_->FailCommits(FaultyStore::kForEver);
  AskedRegister asked = PostRegister("slot");
  EXPECT_THAT(asked.Wait(), StatusIs(kUnavailable, HasSubstr("disk")));
  AskedRegister queued = PostRegister("slot");
  loop_->Stop();
  EXPECT_THAT(queued.Wait(), StatusIs(kUnavailable, HasSubstr("stopping")));
}

TEST_F(LoopFailuresTest, LeaseMustOutliveTwoHeartbeats) {
  options_.heartbeat_us = 5'000'000;
  options_.lease_us = 10'000'000;
  EXPECT_THAT(Loop::Start(options_, store_.get(), &clock_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--lease (10000 ms) must be more than twice "
                                 "--heartbeat (5000 ms)")));
}

TEST_F(LoopFailuresTest, StoreThatFailsAtTheStartIsTold) {
  loop_ = nullptr;
  store_->FailCommits(1);
  EXPECT_THAT(Loop::Start(options_, store_.get(), &clock_).status(),
              StatusIs(kUnavailable, HasSubstr("disk is full")));
}

}  // namespace
}  // namespace iclsweep
