#include "coordinator/cli/socket_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>

#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;

// A process's socket; closing it leaves the file, as a kill does.
class Listener {
 public:
  explicit Listener(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) != 0 ||
        ::listen(fd_, 1) != 0)
      ADD_FAILURE() << "cannot listen on " << path;
  }
  ~Listener() { ::close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  int fd_;
};

class SocketDirectoryTest : public ::testing::Test {
 protected:
  std::string Directory(const std::string& name) {
    fs::create_directory(base_.Path(name));
    return base_.Path(name);
  }
  // As if it had been made so long ago.
  static void Age(const std::string& path, time_t seconds) {
    const timespec then{::time(nullptr) - seconds, 0};
    const std::array<timespec, 2> times = {then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0) << path;
  }
  void RemoveStale() { SocketDirectory::RemoveStale(base_.path()); }

  testing::TempDir base_;
};

TEST_F(SocketDirectoryTest, IsPrivateAndRemovedAtTheEnd) {
  std::string path;
  {
    const SocketDirectory directory(base_.path());
    path = directory.path();
    ASSERT_TRUE(fs::is_directory(path));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    testing::WriteBytes(path + "/coordinator", "");
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(SocketDirectory(base_.Path("nowhere")).path(), "");
}

TEST_F(SocketDirectoryTest, DirectoryOfAKilledRunIsRemoved) {
  const std::string directory = Directory("iclsweep-aaaaaa");
  { const Listener killed(directory + "/coordinator"); }
  Age(directory + "/coordinator", 5);
  RemoveStale();
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(SocketDirectoryTest, DirectoryOfALiveRunStays) {
  const std::string directory = Directory("iclsweep-aaaaaa");
  const Listener live(directory + "/coordinator");
  Age(directory + "/coordinator", 5000);
  Age(directory, 5000);
  RemoveStale();
  EXPECT_TRUE(fs::exists(directory + "/coordinator"));
}

TEST_F(SocketDirectoryTest, SocketThatIsBeingMadeStays) {
  const std::string directory = Directory("iclsweep-aaaaaa");
  { const Listener young(directory + "/coordinator"); }
  RemoveStale();
  EXPECT_TRUE(fs::exists(directory + "/coordinator"));
}

TEST_F(SocketDirectoryTest, DirectoryWithoutASocketHasAMinute) {
  Age(Directory("iclsweep-aaaaaa"), 50);
  Age(Directory("iclsweep-bbbbbb"), 70);
  RemoveStale();
  EXPECT_TRUE(fs::exists(base_.Path("iclsweep-aaaaaa")));
  EXPECT_FALSE(fs::exists(base_.Path("iclsweep-bbbbbb")));
}

TEST_F(SocketDirectoryTest, WhatIsNotOursStays) {
  Age(Directory("iclsweep-data"), 5000);     // another name
  Age(Directory("iclsweep-aaaaaaa"), 5000);  // too long
  const std::string full = Directory("iclsweep-ffffff");
  testing::WriteBytes(full + "/notes", "mine");
  Age(full, 5000);
  const std::string plain = Directory("iclsweep-cccccc");
  testing::WriteBytes(plain + "/coordinator", "not a socket");
  Age(plain + "/coordinator", 5000);
  const std::string target = Directory("elsewhere");
  fs::create_directory_symlink(target, base_.Path("iclsweep-dddddd"));
  Age(target, 5000);
  RemoveStale();
  for (const char* kept :
       {"iclsweep-data", "iclsweep-aaaaaaa", "iclsweep-ffffff/notes",
        "iclsweep-cccccc/coordinator", "iclsweep-dddddd"})
    EXPECT_TRUE(fs::exists(base_.Path(kept))) << kept;
}

}  // namespace
}  // namespace iclsweep
