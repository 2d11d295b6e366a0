// iclsweep serve: a coordinator until it is told to stop.
#include <signal.h>

#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_options.h"
#include "coordinator/cli/options.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

struct ServeArguments {
  std::string listen = "127.0.0.1:50551";
  bool insecure = false;
  CoordinatorFlags flags;
};

absl::Status Serve(const ServeArguments& arguments,
                   const CommandContext& context) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  CoordinatorOptions options;
  options.data_dir = context.data_dir;
  options.listen = arguments.listen;
  options.insecure = arguments.insecure;
  ASSIGN_OR_RETURN(options.loop, LoopOptionsFrom(arguments.flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<Coordinator> coordinator,
                   Coordinator::Start(options));
  absl::PrintF("iclsweep coordinator listening on %s, data in %s\n",
               coordinator->address(), Absolute(context.data_dir));
  std::fflush(stdout);
  while (true) {
    const timespec timeout{0, 200'000'000};
    if (::sigtimedwait(&signals, nullptr, &timeout) > 0) break;
    RETURN_IF_ERROR(coordinator->loop()->status());
  }
  coordinator->Stop();
  return absl::OkStatus();
}

}  // namespace

void AddServe(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ServeArguments>();
  Command command(
      app, context, "serve",
      "Run a coordinator; workers and the other commands connect to it.");
  command.Text("--listen", &arguments->listen,
               "host:port (port 0 = any free one) or unix:/path");
  command.Flag("--insecure", &arguments->insecure,
               "accept plaintext connections from other machines");
  AddCoordinatorFlags(&command, &arguments->flags);
  command.Data();
  command.Run(
      [arguments, context] { return ExitCode(Serve(*arguments, *context)); });
}

}  // namespace iclsweep
