// Starting and stopping a coordinator.
#include "coordinator/service/server.h"

#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "coordinator/service/data_dir.h"
#include "tests/coordinator/service/service_fixture.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

class ServerTest : public testing::ServiceFixture {
 protected:
  std::string HostName() {
    char name[256] = {};
    EXPECT_EQ(::gethostname(name, sizeof(name) - 1), 0);
    return name;
  }
  // grpc.health.v1.Health/Check of the whole server: the bytes of its answer.
  std::string Health() {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    const grpc::Slice empty;  // HealthCheckRequest without a service
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request,
                   &response,
                   [&](const grpc::Status& status) { done.set_value(status); });
    EXPECT_OK(FromGrpcStatus(done.get_future().get()));
    grpc::Slice bytes;
    EXPECT_TRUE(response.DumpToSingleSlice(&bytes).ok());
    return std::string(reinterpret_cast<const char*>(bytes.begin()),
                       bytes.size());
  }
};

TEST_F(ServerTest, ListensOnAnyFreePortAndIsHealthy) {
  CoordinatorOptions options = Options();
  options.listen = "127.0.0.1:0";
  Start(options);
  EXPECT_THAT(coordinator_->address(),
              AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr(":0"))));
  // HealthCheckResponse{status: SERVING} is field 1 with the value 1.
  EXPECT_EQ(Health(), std::string("\x08\x01"));
}

TEST_F(ServerTest, ListensOnAUnixSocket) {
  Start(Options());
  EXPECT_EQ(coordinator_->address(), Options().listen);
  EXPECT_EQ(Health(), std::string("\x08\x01"));
}

TEST_F(ServerTest, MakesItsDataDirectoryWithTheProbeInIt) {
  Start(Options());
  for (const char* name : {"artifacts", "partial", "logs", "slots"})
    EXPECT_TRUE(std::filesystem::is_directory(dir_.Path("data/") + name));
  EXPECT_THAT(
      Rows("SELECT value || char(10) FROM meta WHERE name = 'database_uuid'"),
      ElementsAre(
          testing::BytesOfFile(dir_.Path("data/artifacts/.iclsweep-probe"))));
}

TEST_F(ServerTest, SecondCoordinatorIsToldWhoOwnsTheDirectory) {
  Start(Options());
  CoordinatorOptions second = Options();
  second.listen = absl::StrCat("unix:", dir_.Path("second"));
  EXPECT_THAT(Coordinator::Start(second).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(dir_.Path("data")),
                             HasSubstr(absl::StrCat("host ", HostName())),
                             HasSubstr(absl::StrCat("pid ", ::getpid())))));
  // The first one is not disturbed, and leaves the directory to the next.
  EXPECT_EQ(Health(), std::string("\x08\x01"));
  coordinator_->Stop();
  EXPECT_OK(Coordinator::Start(second).status());
}

TEST_F(ServerTest, DataDirectoryTellsItsCoordinatorsAddress) {
  const std::string data = Options().data_dir;
  const auto nobody =
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("no coordinator runs"), HasSubstr(data)));
  EXPECT_THAT(AddressOfOwner(data), nobody);  // no directory yet
  CoordinatorOptions options = Options();
  options.listen = "127.0.0.1:0";
  Start(options);
  ASSERT_OK_AND_ASSIGN(const std::string address, AddressOfOwner(data));
  EXPECT_EQ(address, coordinator_->address());
  coordinator_->Stop();
  EXPECT_THAT(AddressOfOwner(data), nobody);  // however it ended
}

TEST_F(ServerTest, FailedStartLeavesTheDirectoryFree) {
  CoordinatorOptions options = Options();
  options.listen = "unix:/nonexistent/folder/socket";
  EXPECT_THAT(Coordinator::Start(options).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("unix:/nonexistent/folder/socket")));
  options = Options();
  options.loop.lease_us = options.loop.heartbeat_us;
  EXPECT_THAT(
      Coordinator::Start(options).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--lease")));
  // Refused before anything is made.
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("data")));
  Start(Options());
}

TEST_F(ServerTest, AddressInUseIsRefused) {
  CoordinatorOptions first = Options();
  first.listen = "127.0.0.1:0";
  Start(first);
  CoordinatorOptions second = Options();
  second.data_dir = dir_.Path("other");
  second.listen = coordinator_->address();
  EXPECT_THAT(
      Coordinator::Start(second).status(),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr(coordinator_->address()), HasSubstr("in use"))));
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("other")));
}

TEST_F(ServerTest, LiveUnixSocketIsNotTakenOver) {
  Start(Options());
  CoordinatorOptions second = Options();
  second.data_dir = dir_.Path("other");
  EXPECT_THAT(Coordinator::Start(second).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(second.listen), HasSubstr("listens"))));
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("other")));
  EXPECT_EQ(Health(), std::string("\x08\x01"));
}

TEST_F(ServerTest, SocketLeftBehindIsNoObstacle) {
  const std::string path = dir_.Path("left_behind");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
            0);
  ::close(fd);
  CoordinatorOptions options = Options();
  options.listen = absl::StrCat("unix:", path);
  Start(options);
  EXPECT_EQ(Health(), std::string("\x08\x01"));
}

TEST_F(ServerTest, FileThatIsNoSocketIsLeftAlone) {
  CoordinatorOptions options = Options();
  options.listen = absl::StrCat("unix:", dir_.Path("notes"));
  testing::WriteBytes(dir_.Path("notes"), "mine");
  EXPECT_THAT(Coordinator::Start(options).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no socket")));
  EXPECT_EQ(testing::BytesOfFile(dir_.Path("notes")), "mine");
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("data")));
}

TEST_F(ServerTest, MalformedAddressIsRefused) {
  for (const char* listen : {"nonsense", "127.0.0.1:99999", "unix:x", ":1"}) {
    CoordinatorOptions options = Options();
    options.listen = listen;
    EXPECT_THAT(Coordinator::Start(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("'", listen, "'"))));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("data")));
}

TEST_F(ServerTest, OtherMachinesNeedInsecure) {
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "10.1.2.3:0"}) {
    CoordinatorOptions options = Options();
    options.listen = listen;
    EXPECT_THAT(Coordinator::Start(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(listen), HasSubstr("--insecure"))));
  }
  // Refused before anything is made.
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("data")));
  CoordinatorOptions options = Options();
  options.listen = "0.0.0.0:0";
  options.insecure = true;
  EXPECT_OK(Coordinator::Start(options).status());
}

TEST_F(ServerTest, ForeignDatabaseInTheDirectoryIsRefused) {
  std::filesystem::create_directory(dir_.Path("data"));
  testing::WriteBytes(dir_.Path("data/iclsweep.db"),
                      std::string(4096, 'x') + "not a database");
  EXPECT_THAT(Coordinator::Start(Options()).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr(dir_.Path("data/iclsweep.db"))));
}

TEST_F(ServerTest, UnwritableDataDirectoryIsUnavailable) {
  testing::WriteBytes(dir_.Path("data"), "a file");
  EXPECT_THAT(
      Coordinator::Start(Options()).status(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(dir_.Path("data"))));
}

TEST_F(ServerTest, StopAnswersEveryParkedPoll) {
  Start(Options());
  std::vector<std::unique_ptr<Poll>> polls;
  for (int i = 0; i < 50; ++i) {
    const int64_t worker = Register(absl::StrCat("slot", i));
    polls.push_back(StartPoll(worker, "r"));
    RoundTrip(worker);
  }
  coordinator_->Stop();
  for (const auto& poll : polls) {
    EXPECT_THAT(poll->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("stopping")));
  }
  coordinator_->Stop();  // again: nothing
}

TEST_F(ServerTest, EpochRisesWithEveryStart) {
  Start(Options());
  EXPECT_EQ(coordinator_->loop()->epoch(), 1U);
  coordinator_.reset();
  Start(Options());
  EXPECT_EQ(coordinator_->loop()->epoch(), 2U);
}

}  // namespace
}  // namespace iclsweep
