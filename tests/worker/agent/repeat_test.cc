#include "worker/agent/repeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

class RepeatTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = spdlog::default_logger();
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  void TearDown() override { spdlog::set_default_logger(before_); }
  // What was logged since the last time.
  std::string Told() {
    std::string told = log_.str();
    log_.str("");
    return told;
  }

  SimulatedClock clock_;
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(RepeatTest, PausesDoubleUpToFiveSeconds) {
  Repeat repeat("ask", &clock_);
  for (const int64_t pause :
       {200'000, 400'000, 800'000, 1'600'000, 3'200'000, 5'000'000, 5'000'000})
    EXPECT_EQ(repeat.After(absl::UnavailableError("down")), pause);
}

TEST_F(RepeatTest, TellsTheFirstFailureOneAMinuteAndTheEnd) {
  Repeat repeat("ask for work", &clock_);
  repeat.After(absl::UnavailableError("down"));
  EXPECT_EQ(Told(), "warning cannot ask for work: down; trying again\n");
  for (int i = 0; i < 11; ++i) {
    clock_.Advance(5'000'000);
    repeat.After(absl::UnavailableError("down"));
  }
  EXPECT_EQ(Told(), "");
  clock_.Advance(5'000'000);
  repeat.After(absl::UnavailableError("still down"));
  EXPECT_EQ(Told(), "warning cannot ask for work: still down; trying again\n");
  repeat.Answered();
  EXPECT_EQ(Told(), "info the coordinator answers again: could ask for work\n");
}

TEST_F(RepeatTest, AnswerAtOnceIsNotWorthALine) {
  Repeat("ask", &clock_).Answered();
  EXPECT_EQ(Told(), "");
}

}  // namespace
}  // namespace iclsweep
