#include "proto/base/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace iclsweep {
namespace {

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& text : *strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> StartProgram(ProgramStart start) {
  const std::string program = start.arguments.at(0);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  };
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, start.log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int code = ::posix_spawn(&pid, program.c_str(), &files, &attributes,
                                 Pointers(&start.arguments).data(),
                                 Pointers(&start.environment).data());
  if (code != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ", program, ": ", std::strerror(code)));
  }
  return pid;
}

}  // namespace iclsweep
