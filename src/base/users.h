#pragma once

#include <sys/types.h>

namespace tutti {

// Whether the kernel may mean several users by this number. In a user namespace, whoever has no number there is shown
// under one that is kept for them: it does not tell whether two are the same. Reads /proc.
bool may_be_anybody(uid_t user);

// Whether a process with this user id is of this process's user, and of nobody else.
bool is_this_user(uid_t user);

}  // namespace tutti
