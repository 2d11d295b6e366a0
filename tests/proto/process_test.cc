#include "proto/base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

std::string Contents(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(StartProgramTest, OutputAndErrorsAreAppendedToTheLog) {
  testing::TempDir dir;
  const std::string log = dir.Path("log");
  std::ofstream(log) << "before\n";
  ASSERT_OK_AND_ASSIGN(
      const pid_t pid,
      StartProgram({{"/bin/sh", "-c", "echo $WORD; read x || echo none >&2"},
                    {"WORD=given"},
                    log}));
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Contents(log), "before\ngiven\nnone\n");
}

TEST(StartProgramTest, ProcessLeadsItsOwnGroup) {
  testing::TempDir dir;
  ASSERT_OK_AND_ASSIGN(const pid_t pid,
                       StartProgram({{"/bin/cat"}, {}, dir.Path("log")}));
  const pid_t group = ::getpgid(pid);
  EXPECT_TRUE(group == pid || group == -1) << group;  // -1: ended already
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST(StartProgramTest, MissingProgramIsNamed) {
  testing::TempDir dir;
  EXPECT_THAT(
      StartProgram({{"/no/such/program"}, {}, dir.Path("log")}),
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr("cannot start /no/such/program: No such file")));
}

}  // namespace
}  // namespace iclsweep
