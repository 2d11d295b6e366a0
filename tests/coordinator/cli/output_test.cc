#include "coordinator/cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <string>

#include "coordinator/cli/command.h"
#include "tests/coordinator/cli/captured.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(FlushOutputTest, WhatWasWrittenIsFine) {
  testing::Captured out;
  std::fputs("text", out.file());
  EXPECT_OK(FlushOutput(out.file()));
  EXPECT_EQ(out.Text(), "text");
}

TEST(FlushOutputTest, FullDiskIsToldWheneverItWasMet) {
  for (const size_t size : {size_t{1}, size_t{100'000}}) {
    std::FILE* full = std::fopen("/dev/full", "w");
    ASSERT_NE(full, nullptr);
    std::fputs(std::string(size, 'x').c_str(), full);
    std::fflush(full);  // fails, and forgets why
    EXPECT_THAT(FlushOutput(full),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("No space left on device")))
        << size;
    std::fclose(full);
  }
}

[[noreturn]] void WriteToNobody() {
  ::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) ::_exit(1);
  ::close(ends[0]);
  std::FILE* out = ::fdopen(ends[1], "w");
  std::fputs("text", out);
  ::_exit(FlushOutput(out).ok() ? 2 : 3);
}

TEST(FlushOutputDeathTest, ReaderThatWentAwayEndsTheProgramQuietly) {
  EXPECT_EXIT(WriteToNobody(), ::testing::KilledBySignal(SIGPIPE), "^$");
}

TEST(FinishOutputTest, CodeStaysWhenAllWasPrinted) {
  for (const int code : {kAllDone, kFailedCells, kBadInput, kInterrupted})
    EXPECT_EQ(FinishOutput(code), code);
}

}  // namespace
}  // namespace iclsweep
