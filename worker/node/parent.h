// Ties a process's life to that of the one that started it.
#pragma once

namespace iclsweep {

// When ICLSWEEP_PARENT_PID is set (our own programs set it for what they
// start): this process gets SIGTERM when its parent dies. False when the parent
// is dead already. The signal follows the parent's thread that started us,
// which is its main thread.
bool FollowParent();

}  // namespace iclsweep
