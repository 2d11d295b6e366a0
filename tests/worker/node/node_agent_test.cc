// The node agent with shell scripts for workers: they write what they see into
// their slot directory, and end as the test wants.
#include "worker/node/node_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/agent/slot.h"

namespace iclsweep {
namespace {

using testing::BytesOfFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class NodeAgentTest : public ::testing::Test {
 protected:
  // $2 is the slot directory (after --slot-dir); RUNS counts the starts.
  void Script(const std::string& body) {
    testing::WriteBytes(
        dir_.Path("worker"),
        absl::StrCat("#!/bin/sh\ncd \"$2\" || exit 9\necho x >> runs\n"
                     "RUNS=$(wc -l < runs)\n",
                     body, "\n"));
    ASSERT_EQ(::chmod(dir_.Path("worker").c_str(), 0755), 0);
  }
  NodeOptions Options(std::vector<SlotPlan> slots = {{"cpu-0", "cpu", ""}}) {
    NodeOptions options;
    options.program = dir_.Path("worker");
    options.coordinator = "unix:/somewhere";
    options.work_dir = dir_.Path("work");
    options.slots = std::move(slots);
    return options;
  }
  std::string InSlot(const std::string& name,
                     const std::string& slot = "cpu-0") {
    return BytesOfFile(dir_.Path(absl::StrCat("work/", slot, "/", name)));
  }

  testing::TempDir dir_;
};

TEST_F(NodeAgentTest, EverySlotGetsItsArgumentsAndItsDevice) {
  Script(
      "echo \"$@\" > arguments; echo \"$CUDA_VISIBLE_DEVICES\" > gpu\n"
      "echo \"$OMP_NUM_THREADS $ICLSWEEP_PARENT_PID\" > env");
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1), 0);
  NodeOptions options =
      Options({{"cuda-0", "cuda", "0"}, {"cuda-1", "cuda", "GPU-b"}});
  options.threads_per_slot = 3;
  options.idle_timeout = "5m";
  options.bundle = 17;
  EXPECT_EQ(NodeAgent(options).Run(), 0);
  EXPECT_EQ(InSlot("gpu", "cuda-0"), "0\n");
  EXPECT_EQ(InSlot("gpu", "cuda-1"), "GPU-b\n");
  EXPECT_EQ(InSlot("env", "cuda-0"), absl::StrCat("3 ", ::getpid(), "\n"));
  EXPECT_EQ(InSlot("arguments", "cuda-1"),
            absl::StrCat("--slot-dir ", dir_.Path("work/cuda-1"),
                         " --slot-name cuda-1 --device cuda --coordinator "
                         "unix:/somewhere --threads-per-slot 3 --bundle 17 "
                         "--idle-timeout 5m\n"));
}

TEST_F(NodeAgentTest, CpuSlotSeesNoGpu) {
  Script("echo \"[$CUDA_VISIBLE_DEVICES]\" > gpu");
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1), 0);
  EXPECT_EQ(NodeAgent(Options()).Run(), 0);
  EXPECT_EQ(InSlot("gpu"), "[]\n");
}

TEST_F(NodeAgentTest, DeadWorkerIsStartedAgainAndItsEndNoted) {
  Script(
      "if [ $RUNS = 1 ]; then echo last words; kill -9 $$; fi\n"
      "cp exit note; exit 0");
  EXPECT_EQ(NodeAgent(Options()).Run(), 0);
  EXPECT_EQ(InSlot("runs"), "x\nx\n");
  const std::vector<std::string> note = absl::StrSplit(InSlot("note"), '\n');
  EXPECT_THAT(note, ElementsAre("crashed", HasSubstr("killed by signal 9"),
                                "last words", ""));
}

TEST_F(NodeAgentTest, WorkersLogIsRepeatedWithTheSlotsName) {
  Script(
      "if [ $RUNS = 1 ]; then echo first; echo second >&2; kill -9 $$; fi\n"
      "printf 'no line end'; exit 0");
  std::filesystem::create_directories(dir_.Path("work/cpu-0"));
  testing::WriteBytes(dir_.Path("work/cpu-0/worker.log"), "of last week\n");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(NodeAgent(Options()).Run(), 0);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("cpu-0: first\ncpu-0: second\n"));
  EXPECT_THAT(told, HasSubstr("cpu-0: no line end\n"));
  EXPECT_THAT(told, Not(HasSubstr("last week")));
  EXPECT_THAT(InSlot("worker.log"), HasSubstr("of last week\nfirst\n"));
}

TEST_F(NodeAgentTest, ProgramErrorIsStartedAgainToo) {
  Script("[ $RUNS = 1 ] && exit 1\n[ $RUNS = 2 ] && exit 134\ncp exit note");
  EXPECT_EQ(NodeAgent(Options()).Run(), 0);
  EXPECT_EQ(InSlot("runs"), "x\nx\nx\n");
  EXPECT_THAT(InSlot("note"), HasSubstr("exit status 134"));
}

TEST_F(NodeAgentTest, WorkerThatDecidesToLeaveIsNotStartedAgain) {
  for (const int code : {0, 2, 3, 4}) {
    SCOPED_TRACE(code);
    NodeOptions options = Options();
    options.work_dir = dir_.Path(absl::StrCat("work", code));
    Script(absl::StrCat("exit ", code));
    EXPECT_EQ(NodeAgent(options).Run(), code);
    EXPECT_EQ(BytesOfFile(dir_.Path(absl::StrCat("work", code, "/cpu-0/runs"))),
              "x\n");
  }
}

TEST_F(NodeAgentTest, OneSlotsEndDoesNotEndTheOthers) {
  Script(
      "case \"$4\" in\n"
      "cpu-0) exit 3;;\n"
      "cpu-1) [ $RUNS = 1 ] && kill -11 $$; exit 0;;\n"
      "esac");
  EXPECT_EQ(
      NodeAgent(Options({{"cpu-0", "cpu", ""}, {"cpu-1", "cpu", ""}})).Run(),
      3);
  EXPECT_EQ(InSlot("runs", "cpu-0"), "x\n");
  EXPECT_EQ(InSlot("runs", "cpu-1"), "x\nx\n");
}

TEST_F(NodeAgentTest, StopSignalIsPassedOnAndEndsTheNode) {
  // The worker tells its parent to stop, and leaves when it is told itself.
  Script(
      "trap 'echo told > told; exit 0' TERM\n"
      "kill -TERM $ICLSWEEP_PARENT_PID\n"
      "while :; do :; done");
  EXPECT_EQ(NodeAgent(Options()).Run(), 0);
  EXPECT_EQ(InSlot("told"), "told\n");
  EXPECT_EQ(InSlot("runs"), "x\n");
}

TEST_F(NodeAgentTest, SecondStopSignalKills) {
  Script(
      "trap 'kill -TERM $ICLSWEEP_PARENT_PID' TERM\n"
      "kill -TERM $ICLSWEEP_PARENT_PID\n"
      "while :; do :; done");
  EXPECT_EQ(NodeAgent(Options()).Run(), 1);
}

TEST_F(NodeAgentTest, ProgramThatIsNotThereIsAnError) {
  NodeOptions options = Options();
  options.program = dir_.Path("nowhere");
  EXPECT_EQ(NodeAgent(options).Run(), 3);
}

}  // namespace
}  // namespace iclsweep
