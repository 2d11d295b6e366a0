#include "worker/agent/slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/support/file_size_limit.h"
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
  std::string SpoolFile() const { return absl::StrCat(path_, "/spool"); }
  // As the slot's next process finds them.
  std::vector<std::string> SpooledBytes() {
    Open();
    std::vector<std::string> bytes;
    for (const Slot::Spooled& entry : slot_->spooled())
      bytes.push_back(entry.encoded);
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
  for (const int64_t job : {2, 3, 1})
    ASSERT_OK(slot_->Spool({JobId{job}, 1}, absl::StrCat("of ", job)));
  ASSERT_OK(slot_->SyncSpool());
  EXPECT_THAT(SpooledBytes(), ElementsAre("of 2", "of 3", "of 1"));
}

TEST_F(SlotTest, AcknowledgedResultsAreGone) {
  for (const int64_t job : {1, 2, 3})
    ASSERT_OK(slot_->Spool({JobId{job}, 1}, absl::StrCat("of ", job)));
  ASSERT_OK(slot_->ForgetSpooled(2));
  ASSERT_EQ(slot_->spooled().size(), 1U);
  EXPECT_EQ(slot_->spooled()[0].encoded, "of 3");
  EXPECT_THAT(slot_->SpooledLeases(), ElementsAre(LeaseRef{JobId{3}, 1}));
  ASSERT_OK(slot_->ForgetSpooled(1));
  EXPECT_THAT(slot_->SpooledLeases(), IsEmpty());
  EXPECT_THAT(SpooledBytes(), IsEmpty());
  ASSERT_OK(slot_->Spool({JobId{4}, 1}, "next"));
  EXPECT_THAT(SpooledBytes(), ElementsAre("next"));
}

TEST_F(SlotTest, DamagedResultsAreSetAsideAndTheOthersKept) {
  ASSERT_OK(slot_->Spool({JobId{1}, 1}, "flipped-result"));
  ASSERT_OK(slot_->Spool({JobId{2}, 1}, "whole\nresult"));
  ASSERT_OK(slot_->Spool({JobId{3}, 1}, "its header is damaged"));
  ASSERT_OK(slot_->Spool({JobId{4}, 1}, "whole too"));
  ASSERT_OK(slot_->Spool({JobId{5}, 1}, "torn-result"));
  std::string bytes = BytesOfFile(SpoolFile());
  bytes[bytes.find("flipped")] = 'F';
  bytes[bytes.find("3 1 ")] = 'x';
  bytes.resize(bytes.size() - 4);
  WriteBytes(SpoolFile(), bytes);
  EXPECT_THAT(SpooledBytes(), ElementsAre("whole\nresult", "whole too"));
  EXPECT_TRUE(BytesOfFile(absl::StrCat(SpoolFile(), ".damaged")) == bytes);
  EXPECT_THAT(slot_->SpooledLeases(),
              ElementsAre(LeaseRef{JobId{2}, 1}, LeaseRef{JobId{4}, 1}));
  EXPECT_THAT(SpooledBytes(), ElementsAre("whole\nresult", "whole too"))
      << "and stays so";
  ASSERT_OK(slot_->Spool({JobId{6}, 1}, "after it"));
  EXPECT_THAT(SpooledBytes(),
              ElementsAre("whole\nresult", "whole too", "after it"));
}

TEST_F(SlotTest, GarbageInTheSpoolIsNoResult) {
  const char* const long_entry = "1 1 99999999999 a\nb\n";
  for (const char* garbage :
       {"x", "\n", "1 1 5 abc\n12345\n", long_entry, "\n\n\n"}) {
    WriteBytes(SpoolFile(), garbage);
    EXPECT_THAT(SpooledBytes(), IsEmpty()) << garbage;
  }
}

TEST_F(SlotTest, ResultThatTheDiskRefusesIsNotSpooledByHalves) {
  ASSERT_OK(slot_->Spool({JobId{1}, 1}, "whole"));
  {
    const testing::FileSizeLimit full(120);
    EXPECT_THAT(slot_->Spool({JobId{2}, 1}, std::string(100, 'x')),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("spool")));
  }
  EXPECT_THAT(slot_->SpooledLeases(), ElementsAre(LeaseRef{JobId{1}, 1}));
  ASSERT_OK(slot_->Spool({JobId{3}, 1}, "whole again"));
  EXPECT_THAT(SpooledBytes(), ElementsAre("whole", "whole again"));
  EXPECT_FALSE(fs::exists(absl::StrCat(SpoolFile(), ".damaged")));
}

}  // namespace
}  // namespace iclsweep
