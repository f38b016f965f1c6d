#pragma once

#include <string>

#include "base/handles.h"
#include "base/net/address.h"

namespace tutti {

// Non-blocking TCP sockets that are not inherited across exec. All throw Error(kSystem); none of them waits.

// Listens with a queue for all ranks of a large job. Port 0: any free one. An address in use is an error that names it.
UniqueFd listen_on(const SocketAddress& address);
// A socket whose connection to the address has been begun: writable once it is established or refused. `error`: 0 or
// the errno when it was refused at once.
UniqueFd begin_connecting(const SocketAddress& address, int& error);
// 0 or the errno of a connection that was begun.
int connection_error(int fd);

SocketAddress local_address(int fd);
SocketAddress remote_address(int fd);

// Small messages leave at once; a vanished host is noticed by the kernel, too.
void set_low_latency(int fd);

// Whether accept() failed because of one connection only, so that the next may be accepted at once.
bool accept_may_go_on(int error);

}  // namespace tutti
