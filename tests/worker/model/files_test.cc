#include "worker/model/files.h"

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/worker/model/scratch.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;

class FilesTest : public testing::Scratch {
 protected:
  absl::Status Publish(const std::string& text) {
    return PublishDirectory(Path("out/x"), [&](const std::string& folder) {
      return WriteFileDurably(folder + "/a", text);
    });
  }
  int CountEntries(const std::string& name) {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator(Path(name)), {}));
  }
};

TEST_F(FilesTest, AWrittenFileReadsBackAndLeavesNoTemporary) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_OK(CreateDirectories(Path("d")));
  ASSERT_OK(WriteFileDurably(Path("d/f"), "old"));
  ASSERT_OK(WriteFileDurably(Path("d/f"), bytes));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(Path("d/f")));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(CountEntries("d"), 1);
}

TEST_F(FilesTest, AnUnwritablePlaceIsUnavailable) {
  EXPECT_THAT(WriteFileDurably(Path("absent/f"), "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("absent/f")));
}

TEST_F(FilesTest, APublishedFolderIsValidAndAlone) {
  ASSERT_OK(Publish("text"));
  EXPECT_OK(CheckManifest(Path("out/x")));
  EXPECT_EQ(CountEntries("out"), 1);
}

TEST_F(FilesTest, DamageIsFoundByTheManifest) {
  ASSERT_OK(Publish("text"));
  ASSERT_OK(WriteFileDurably(Path("out/x/a"), "tex"));
  EXPECT_THAT(CheckManifest(Path("out/x")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  ASSERT_OK(WriteFileDurably(Path("out/x/a"), "texT"));
  EXPECT_THAT(CheckManifest(Path("out/x")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  ASSERT_OK(RemoveTree(Path("out/x/a")));
  EXPECT_THAT(CheckManifest(Path("out/x")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("incomplete")));
  ASSERT_OK(WriteFileDurably(Path("out/x/manifest.json"), "{"));
  EXPECT_THAT(
      CheckManifest(Path("out/x")),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a manifest")));
  ASSERT_OK(RemoveTree(Path("out/x/manifest.json")));
  EXPECT_THAT(CheckManifest(Path("out/x")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("incomplete")));
}

TEST_F(FilesTest, AValidFolderIsNeverReplaced) {
  ASSERT_OK(Publish("first"));
  EXPECT_THAT(Publish("second"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("out/x")));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(Path("out/x/a")));
  EXPECT_EQ(read, "first");
  EXPECT_EQ(CountEntries("out"), 1);
}

TEST_F(FilesTest, ABrokenFolderIsReplaced) {
  ASSERT_OK(Publish("first"));
  ASSERT_OK(WriteFileDurably(Path("out/x/a"), "torn"));
  ASSERT_OK(Publish("second"));
  EXPECT_OK(CheckManifest(Path("out/x")));
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(Path("out/x/a")));
  EXPECT_EQ(read, "second");
  EXPECT_EQ(CountEntries("out"), 1);
}

TEST_F(FilesTest, AFailedFillLeavesNothing) {
  EXPECT_THAT(PublishDirectory(
                  Path("out/x"),
                  [](const std::string&) { return absl::InternalError("no"); }),
              StatusIs(absl::StatusCode::kInternal, "no"));
  EXPECT_EQ(CountEntries("out"), 0);
}

}  // namespace
}  // namespace iclsweep
