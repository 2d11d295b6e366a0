#include "coordinator/cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(FailTest, ExitCodeSaysWhatToDoNext) {
  EXPECT_EQ(Fail(absl::InvalidArgumentError("x")), 2);
  EXPECT_EQ(Fail(absl::NotFoundError("x")), 2);
  EXPECT_EQ(Fail(absl::FailedPreconditionError("x")), 4);
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::DataLossError("x"),
        absl::DeadlineExceededError("x"), absl::InternalError("x"),
        absl::UnknownError("x")})
    EXPECT_EQ(Fail(status), 3) << status;
}

TEST(FailTest, PrintsOneLineOnStderr) {
  ::testing::internal::CaptureStderr();
  Fail(absl::NotFoundError("no sweep 'x' 100%"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "iclsweep: no sweep 'x' 100%\n");
}

TEST(UnknownCommandTest, NamesTheWordAndTheClosestCommand) {
  const std::vector<std::string> commands = {"run", "plan", "results"};
  const struct {
    const char* word;
    const char* message;
  } cases[] = {
      {"rnu", "there is no command 'rnu'; did you mean 'run'? (see --help)"},
      {"xyzzy", "there is no command 'xyzzy' (see --help)"},
      {"--bogus", "there is no option '--bogus' (see --help)"},
      {"", "name a command: run, plan, results (see --help)"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(UnknownCommand(c.word, commands),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::StrEq(c.message)))
        << c.word;
  }
}

TEST(ReadSweepFileTest, ReadsTheBytes) {
  const testing::TempDir dir;
  const std::string text("name: s\r\n# \xc3\xbc\n\0tail", 19);
  testing::WriteBytes(dir.Path("s.yaml"), text);
  ASSERT_OK_AND_ASSIGN(const std::string read,
                       ReadSweepFile(dir.Path("s.yaml")));
  EXPECT_EQ(read, text);
  testing::WriteBytes(dir.Path("empty.yaml"), "");
  ASSERT_OK_AND_ASSIGN(const std::string empty,
                       ReadSweepFile(dir.Path("empty.yaml")));
  EXPECT_EQ(empty, "");
}

TEST(ReadSweepFileTest, SaysWhatIsWrongWithTheFile) {
  const testing::TempDir dir;
  EXPECT_THAT(ReadSweepFile(dir.Path("none.yaml")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir.Path("none.yaml")),
                             HasSubstr("No such file"))));
  EXPECT_THAT(ReadSweepFile(dir.path()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir.path()), HasSubstr("directory"))));
}

}  // namespace
}  // namespace iclsweep
