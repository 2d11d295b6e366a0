#include "worker/agent/slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;

using testing::BytesOfFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;
using testing::WriteBytes;

class SlotTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    slot_ = nullptr;
    ASSERT_OK_AND_ASSIGN(slot_, Slot::Open(path_));
  }
  std::string SpoolFile(const std::string& name) const {
    return absl::StrCat(path_, "/spool/", name);
  }
  std::vector<std::string> SpooledBytes() {
    const absl::StatusOr<std::vector<Slot::Spooled>> entries =
        slot_->ReadSpool();
    EXPECT_TRUE(entries.ok()) << entries.status();
    std::vector<std::string> bytes;
    for (const Slot::Spooled& entry : *entries) bytes.push_back(entry.encoded);
    return bytes;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_.Path("work/cpu-0");
  std::unique_ptr<Slot> slot_;
};

TEST_F(SlotTest, OneProcessHoldsIt) {
  EXPECT_THAT(
      Slot::Open(path_).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
  slot_ = nullptr;
  EXPECT_OK(Slot::Open(path_).status());
}

TEST_F(SlotTest, RefusedProcessLeavesTheHoldersFilesAlone) {
  slot_->MarkRunning({{JobId{5}, 2}, 1, 1, 9});
  EXPECT_FALSE(Slot::Open(path_).ok());
  EXPECT_EQ(slot_->ReadPredecessor().progress.lease, (LeaseRef{JobId{5}, 2}));
}

TEST_F(SlotTest, IdentityIsKeptAndDiffersBetweenSlots) {
  const std::string uuid = slot_->uuid();
  EXPECT_EQ(uuid.size(), 32U);
  Open();
  EXPECT_EQ(slot_->uuid(), uuid);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Slot> other,
                       Slot::Open(dir_.Path("work/cpu-1")));
  EXPECT_NE(other->uuid(), uuid);
}

TEST_F(SlotTest, DamagedIdentityIsMadeAnew) {
  WriteBytes(absl::StrCat(path_, "/slot.uuid"), "short\n");
  Open();
  EXPECT_EQ(slot_->uuid().size(), 32U);
}

TEST_F(SlotTest, DirectoryThatCannotBeMadeIsUnavailable) {
  WriteBytes(dir_.Path("file"), "");
  EXPECT_THAT(Slot::Open(dir_.Path("file/slot")).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("file/slot")));
}

// ---- the running mark and the exit note

TEST_F(SlotTest, FirstProcessHasNoPredecessor) {
  EXPECT_FALSE(slot_->ReadPredecessor().progress.lease.job);
}

TEST_F(SlotTest, MarkSurvivesTheProcess) {
  LeaseProgress progress{{JobId{123456789012}, 4'000'000'000U}, 7, 8, 9, true};
  slot_->MarkRunning({{JobId{1}, 1}, 1, 1, 1});
  slot_->MarkRunning(progress);
  Open();
  const Predecessor predecessor = slot_->ReadPredecessor();
  EXPECT_EQ(predecessor.progress.lease, progress.lease);
  EXPECT_EQ(predecessor.progress.steps_run, 7U);
  EXPECT_EQ(predecessor.progress.steps_done, 8U);
  EXPECT_EQ(predecessor.progress.steps_total, 9U);
  EXPECT_TRUE(predecessor.progress.checkpointed);
}

TEST_F(SlotTest, WithoutAnExitNoteTheNodeWentAway) {
  slot_->MarkRunning({{JobId{5}, 2}});
  const Predecessor predecessor = slot_->ReadPredecessor();
  EXPECT_EQ(predecessor.cause, Cause::kPreempted);
  EXPECT_EQ(predecessor.description, "the node went away");
  EXPECT_EQ(predecessor.log_tail, "");
}

TEST_F(SlotTest, ExitNoteSaysHowItDied) {
  slot_->MarkRunning({{JobId{5}, 2}});
  WriteExit(path_, "out_of_memory", "killed by signal 9 (Killed)",
            "one\ntwo\n\nlast");
  const Predecessor predecessor = slot_->ReadPredecessor();
  EXPECT_EQ(predecessor.cause, Cause::kOutOfMemory);
  EXPECT_EQ(predecessor.description, "killed by signal 9 (Killed)");
  EXPECT_EQ(predecessor.log_tail, "one\ntwo\n\nlast");
  EXPECT_EQ(predecessor.progress.lease, (LeaseRef{JobId{5}, 2}));
}

TEST_F(SlotTest, LaterExitNoteReplacesTheEarlier) {
  WriteExit(path_, "crashed", "first", "a long log of the first\n");
  WriteExit(path_, "device_error", "second", "");
  const Predecessor predecessor = slot_->ReadPredecessor();
  EXPECT_EQ(predecessor.cause, Cause::kDeviceError);
  EXPECT_EQ(predecessor.description, "second");
  EXPECT_EQ(predecessor.log_tail, "");
}

TEST_F(SlotTest, UnknownCauseCountsAsACrash) {
  WriteExit(path_, "meteorite", "hit", "");
  EXPECT_EQ(slot_->ReadPredecessor().cause, Cause::kCrashed);
}

TEST_F(SlotTest, ForgottenPredecessorIsGoneForGood) {
  slot_->MarkRunning({{JobId{5}, 2}, 3, 4, 5, true});
  WriteExit(path_, "crashed", "boom", "log");
  slot_->ForgetPredecessor();
  Open();
  const Predecessor predecessor = slot_->ReadPredecessor();
  EXPECT_FALSE(predecessor.progress.lease.job);
  EXPECT_EQ(predecessor.progress.steps_run, 0U);
  EXPECT_EQ(predecessor.cause, Cause::kPreempted);
}

TEST_F(SlotTest, DamagedMarkNamesNoJob) {
  for (const char* mark : {"", "garbage\n", "12", "12 1 3\n"}) {
    WriteBytes(absl::StrCat(path_, "/running"), mark);
    EXPECT_FALSE(slot_->ReadPredecessor().progress.lease.job) << mark;
  }
}

// ---- the spool

TEST_F(SlotTest, SpooledResultsSurviveTheProcessByteForByte) {
  const std::string bytes("\0\x01 with zeros\0 and \xff", 20);
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, bytes));
  Open();
  EXPECT_THAT(SpooledBytes(), ElementsAre(bytes));
  EXPECT_THAT(slot_->SpooledLeases(), ElementsAre(LeaseRef{JobId{7}, 2}));
}

TEST_F(SlotTest, OldestIsFirst) {
  ASSERT_OK(slot_->Spool({JobId{1}, 1}, "newest"));
  ASSERT_OK(slot_->Spool({JobId{2}, 1}, "oldest"));
  ASSERT_OK(slot_->Spool({JobId{3}, 1}, "middle"));
  const auto time = fs::last_write_time(SpoolFile("1-1.result"));
  fs::last_write_time(SpoolFile("2-1.result"), time - std::chrono::hours(2));
  fs::last_write_time(SpoolFile("3-1.result"), time - std::chrono::hours(1));
  EXPECT_THAT(SpooledBytes(), ElementsAre("oldest", "middle", "newest"));
}

TEST_F(SlotTest, SameAttemptIsSpooledOnce) {
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "first"));
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "second"));
  EXPECT_THAT(SpooledBytes(), ElementsAre("second"));
}

TEST_F(SlotTest, ForgottenResultIsGone) {
  ASSERT_OK(slot_->Spool({JobId{7}, 2}, "x"));
  ASSERT_OK_AND_ASSIGN(const std::vector<Slot::Spooled> spooled,
                       slot_->ReadSpool());
  ASSERT_OK(slot_->Forget(spooled.at(0).file));
  EXPECT_THAT(SpooledBytes(), IsEmpty());
  EXPECT_THAT(slot_->SpooledLeases(), IsEmpty());
  EXPECT_OK(slot_->Forget(spooled.at(0).file));  // twice: as good as once
}

TEST_F(SlotTest, DamagedResultsAreSetAsideAndTheOthersKept) {
  ASSERT_OK(slot_->Spool({JobId{1}, 1}, "truncated-result"));
  ASSERT_OK(slot_->Spool({JobId{2}, 1}, "flipped-result"));
  ASSERT_OK(slot_->Spool({JobId{3}, 1}, "whole-result"));
  std::string bytes = BytesOfFile(SpoolFile("1-1.result"));
  WriteBytes(SpoolFile("1-1.result"), bytes.substr(0, bytes.size() - 1));
  bytes = BytesOfFile(SpoolFile("2-1.result"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteBytes(SpoolFile("2-1.result"), bytes);
  WriteBytes(SpoolFile("4-1.result"), "");
  WriteBytes(SpoolFile("5-1.result"), std::string(64, 'a'));
  EXPECT_THAT(SpooledBytes(), ElementsAre("whole-result"));
  for (const char* name : {"1-1", "2-1", "4-1", "5-1"}) {
    EXPECT_TRUE(fs::exists(SpoolFile(absl::StrCat(name, ".result.damaged"))));
    EXPECT_FALSE(fs::exists(SpoolFile(absl::StrCat(name, ".result"))));
  }
  EXPECT_THAT(slot_->SpooledLeases(), ElementsAre(LeaseRef{JobId{3}, 1}));
  EXPECT_THAT(SpooledBytes(), ElementsAre("whole-result"));  // and stays so
}

TEST_F(SlotTest, HalfWrittenFileIsNoResult) {
  // What a crash before the renaming leaves.
  WriteBytes(SpoolFile("9-1.result.new"), "half");
  EXPECT_THAT(SpooledBytes(), IsEmpty());
  EXPECT_THAT(slot_->SpooledLeases(), IsEmpty());
}

TEST_F(SlotTest, SpoolThatCannotBeWrittenIsUnavailable) {
  fs::remove_all(absl::StrCat(path_, "/spool"));
  EXPECT_THAT(slot_->Spool({JobId{1}, 1}, "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("spool")));
  EXPECT_THAT(slot_->ReadSpool().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("spool")));
}

}  // namespace
}  // namespace iclsweep
