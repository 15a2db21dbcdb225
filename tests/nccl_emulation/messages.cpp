#include "tests/nccl_emulation/messages.h"

#include <nccl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace nystrom::nccl_emulation {
namespace {

std::size_t bytes_of(std::uint32_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclFloat32: return 4;
    default: return 8;
  }
}

const char* name_of(std::uint32_t type) {
  switch (type) {
    case ncclUint8: return "u8";
    case ncclFloat16: return "f16";
    case ncclBfloat16: return "bf16";
    case ncclFloat32: return "f32";
    default: return "f64";
  }
}

}  // namespace

std::size_t Part::bytes() const { return static_cast<std::size_t>(count) * bytes_of(type); }

std::string Part::text() const {
  static const char* const names[] = {"all_reduce", "reduce to", "broadcast from", "send to",
                                      "receive from"};
  return std::string(names[static_cast<int>(operation)]) +
         (peer >= 0 ? " " + std::to_string(peer) : "") + " of " + std::to_string(count) + " " +
         name_of(type);
}

Connection::Connection(int socket) : socket_(socket) {
  // A message is several small writes: the second one must not wait for the first one's receipt.
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
Connection::~Connection() { ::close(socket_); }

bool Connection::write(const void* bytes, std::size_t count) const {
  const auto* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket_, next, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    next += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool Connection::read() {
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) {
      received.insert(received.end(), buffer, buffer + got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

}  // namespace nystrom::nccl_emulation
