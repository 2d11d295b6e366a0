// An agent in a fresh slot directory, before a scripted coordinator, with
// simulated time.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/fake_link.h"
#include "worker/agent/agent.h"

namespace iclsweep::testing {

class AgentFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kHour = 3'600'000'000;

  void SetUp() override {
    std::filesystem::create_directory(dir_.Path("artifacts"));
    WriteBytes(dir_.Path("artifacts/.iclsweep-probe"), "the-database\n");
    link_.default_registration.database_uuid = "the-database";
    link_.default_registration.artifact_dir = dir_.Path("artifacts");
    link_.default_registration.partial_dir = dir_.Path("partial");
    link_.default_registration.log_dir = dir_.Path("logs");
    link_.default_registration.heartbeat_us = kHour;  // none in most tests
    link_.default_registration.checkpoint_every_steps = 50;
    options_.slot_name = "host/cpu-0";
    options_.provenance.device_kind = "cpu/avx2";
    options_.poll_us = 7'000'000;
    OpenSlot();
    // A worker with nothing left to do is stopped, as by a signal.
    link_.on_idle = [this] { agent_->Stop(Cause::kDrained); };
  }
  void TearDown() override { link_.ExpectScriptUsedUp(); }

  void OpenSlot() {
    slot_ = nullptr;
    ASSERT_OK_AND_ASSIGN(slot_, Slot::Open(dir_.Path("slot")));
  }
  absl::Status Run() {
    agent_ = std::make_unique<Agent>(options_, &link_, slot_.get(), &clock_);
    return agent_->Run();
  }

  using Stage = std::function<absl::StatusOr<StageResult>(const StageContext&)>;
  static std::vector<LeasedWork> Work(int64_t job, uint32_t attempt,
                                      Stage run) {
    LeasedWork work;
    work.lease = {JobId{job}, attempt};
    work.key.bytes.fill(0xab);
    work.run = std::move(run);
    return {work};
  }
  static absl::StatusOr<StageResult> Succeed(const StageContext& /*context*/) {
    StageResult result;
    Measurement m;
    m.name = "G";
    m.value = 1.5;
    result.measurements = {m};
    return result;
  }
  // Runs until it is told to stop, then gives up as stages do.
  static absl::StatusOr<StageResult> RunUntilStopped(
      const StageContext& context) {
    while (!context.Stopped()) std::this_thread::yield();
    return absl::CancelledError("stopped");
  }

  // The lease in the running mark, as the node agent would read it.
  std::string Marked() const {
    long long job = -1;
    unsigned attempt = 0;
    unsigned long long steps_run = 0;
    const std::string mark = BytesOfFile(dir_.Path("slot/running"));
    if (std::sscanf(mark.c_str(), "%lld %u %llu", &job, &attempt, &steps_run) !=
        3)
      return "no mark";
    return absl::StrCat(job, "/", attempt, " steps=", steps_run);
  }
  // The attempts whose results lie in the spool's file.
  std::vector<std::string> Spooled() const {
    const std::string bytes = BytesOfFile(dir_.Path("slot/spool"));
    std::vector<std::string> attempts;
    for (const absl::string_view line : absl::StrSplit(bytes, '\n')) {
      if (line.empty() || line[0] == '{') continue;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      attempts.push_back(absl::StrCat(words[0], "/", words[1]));
    }
    return attempts;
  }

  TempDir dir_;
  AgentOptions options_;
  FakeLink link_;
  SimulatedClock clock_;
  std::unique_ptr<Slot> slot_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace iclsweep::testing
