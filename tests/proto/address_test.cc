#include "proto/base/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::StatusIs;

TEST(AddressTest, HostAndPort) {
  ASSERT_OK_AND_ASSIGN(const Address address,
                       ParseAddress("--listen", "head.cluster:50551"));
  EXPECT_EQ(address.host, "head.cluster");
  EXPECT_EQ(address.port, 50551);
  EXPECT_FALSE(address.is_unix());
}

TEST(AddressTest, BracketsHoldIpv6) {
  ASSERT_OK_AND_ASSIGN(const Address address,
                       ParseAddress("--listen", "[::1]:0"));
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 0);
}

TEST(AddressTest, UnixSocket) {
  ASSERT_OK_AND_ASSIGN(const Address address,
                       ParseAddress("--listen", "unix:/run/a:b"));
  EXPECT_EQ(address.unix_path, "/run/a:b");
  EXPECT_TRUE(address.is_unix());
}

TEST(AddressTest, LocalIsWhatOtherMachinesDoNotReach) {
  for (const char* text : {"unix:/run/x", "127.0.0.1:1", "127.1.2.3:1",
                           "localhost:1", "[::1]:1"}) {
    ASSERT_OK_AND_ASSIGN(const Address address, ParseAddress("--listen", text));
    EXPECT_TRUE(address.is_local()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "head:1", "10.0.0.1:1",
                           "localhost.example.org:1", "127.example.org:1"}) {
    ASSERT_OK_AND_ASSIGN(const Address address, ParseAddress("--listen", text));
    EXPECT_FALSE(address.is_local()) << text;
  }
}

TEST(AddressTest, LargestPortIsTheLast) {
  ASSERT_OK_AND_ASSIGN(const Address address,
                       ParseAddress("--listen", "host:65535"));
  EXPECT_EQ(address.port, 65535);
  for (const char* port : {"65536", "99999", "-1", "", " 1", "1x", "http",
                           "18446744073709551617"}) {
    EXPECT_THAT(
        ParseAddress("--listen", absl::StrCat("host:", port)).status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("--listen 'host:"), HasSubstr("0 to 65535"))))
        << port;
  }
}

TEST(AddressTest, OtherFormsAreNamed) {
  for (const char* text : {"", "nonsense", ":50551", "::1:50551", "[::1:5",
                           "[host]:5", "a b:5", "http://host:5", "[]:5"}) {
    EXPECT_THAT(
        ParseAddress("--coordinator", text).status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("--coordinator '"), HasSubstr("host:port"))))
        << text;
  }
}

TEST(AddressTest, SocketPathsAreAbsoluteAndShort) {
  EXPECT_THAT(
      ParseAddress("--listen", "unix:socket").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("absolute")));
  const std::string longest = absl::StrCat("unix:/", std::string(106, 'x'));
  EXPECT_OK(ParseAddress("--listen", longest).status());
  EXPECT_THAT(ParseAddress("--listen", absl::StrCat(longest, "x")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("107")));
}

}  // namespace
}  // namespace iclsweep
