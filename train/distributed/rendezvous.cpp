#include "train/distributed/rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"

namespace nystrom {
namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// Ends connecting, sending and receiving that take longer than five seconds.
  void limit_time() const {
    const timeval limit{5, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  bool send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0 && errno != EINTR) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(0, sent)));
    }
    return true;
  }
  bool receive(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    }
    return true;
  }

 private:
  int descriptor_;
};

/// What a process says to rank 0.
struct Greeting {
  char program[8] = {'n', 'y', 's', 't', 'r', 'o', 'm', 1};
  std::int32_t rank = 0, size = 0;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Null if the name is not known, now or yet.
Addresses addresses_of(const char* host, const std::string& port, int family) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = family;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  if (::getaddrinfo(host, port.c_str(), &wanted, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

std::string shown(const MeetingPlace& place) { return place.host + ":" + place.port; }

/// Listens on all addresses of this machine that are of the host's kind.
Socket listen_at(const MeetingPlace& place) {
  const Addresses host = addresses_of(place.host.c_str(), place.port, AF_UNSPEC);
  require_input(host != nullptr, "{}: MASTER_ADDR is not known here", shown(place));
  const Addresses all = addresses_of(nullptr, place.port, host->ai_family);
  require_input(all != nullptr, "{}: cannot listen there", shown(place));
  Socket socket(::socket(all->ai_family, all->ai_socktype, all->ai_protocol));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool listens = ::bind(socket.get(), all->ai_addr, all->ai_addrlen) == 0 &&
                       ::listen(socket.get(), SOMAXCONN) == 0;
  require_input(listens, "{}: cannot listen there: {}; choose another MASTER_PORT", shown(place),
                std::strerror(errno));
  return socket;
}

/// Whether a connection comes within 100 ms.
bool is_asked(const Socket& socket) {
  pollfd wanted{socket.get(), POLLIN, 0};
  return ::poll(&wanted, 1, 100) > 0;
}

void give_to_all(const MeetingPlace& place, std::span<const std::byte> bytes,
                 Clock::time_point end) {
  const Socket listening = listen_at(place);
  std::vector<bool> served(static_cast<std::size_t>(place.size));
  served[0] = true;
  while (true) {
    std::vector<int> missing;
    for (int rank = 0; rank < place.size; ++rank)
      if (!served[static_cast<std::size_t>(rank)]) missing.push_back(rank);
    if (missing.empty()) return;
    if (Clock::now() >= end)
      throw Error(fmt::format("rank 0 waited at {} in vain for ranks {}", shown(place),
                              fmt::join(missing, ", ")));
    if (!is_asked(listening)) continue;
    const Socket other(::accept(listening.get(), nullptr, nullptr));
    if (!other.is_open()) continue;
    other.limit_time();
    Greeting greeting;
    const Greeting expected;
    if (!other.receive(std::as_writable_bytes(std::span(&greeting, 1)))) continue;
    const bool one_of_us =
        std::memcmp(greeting.program, expected.program, sizeof expected.program) == 0 &&
        greeting.size == place.size && greeting.rank > 0 && greeting.rank < place.size;
    if (one_of_us && other.send(bytes)) served[static_cast<std::size_t>(greeting.rank)] = true;
  }
}

bool ask_once(const MeetingPlace& place, std::span<std::byte> bytes) {
  const Addresses addresses = addresses_of(place.host.c_str(), place.port, AF_UNSPEC);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const Socket socket(::socket(each->ai_family, each->ai_socktype, each->ai_protocol));
    if (!socket.is_open()) continue;
    socket.limit_time();
    if (::connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    Greeting greeting;
    greeting.rank = place.rank;
    greeting.size = place.size;
    if (socket.send(std::as_bytes(std::span(&greeting, 1))) && socket.receive(bytes)) return true;
  }
  return false;
}

}  // namespace

void share_from_first(const MeetingPlace& place, std::span<std::byte> bytes,
                      std::chrono::seconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  if (place.rank == 0) return give_to_all(place, bytes, end);
  while (!ask_once(place, bytes)) {
    if (Clock::now() >= end)
      throw Error(
          fmt::format("rank {}: no answer from rank 0 at {} in {} s; is MASTER_ADDR its "
                      "machine, and the port open?",
                      place.rank, shown(place), patience.count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace nystrom
