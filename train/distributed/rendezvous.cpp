#include "train/distributed/rendezvous.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/long_list.h"
#include "core/check.h"

namespace nystrom {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds limit_of_call{5};

struct Socket : Descriptor {
  using Descriptor::Descriptor;

  /// Ends a connect, send or receive that takes longer than `limit_of_call`.
  void limit_time() const {
    const timeval limit{limit_of_call.count(), 0};
    ::setsockopt(get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ::setsockopt(get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  bool send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0 && errno != EINTR) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(0, sent)));
    }
    return true;
  }
  bool receive(std::span<std::byte> bytes) const {
    const Clock::time_point end = Clock::now() + limit_of_call;
    while (!bytes.empty()) {
      if (Clock::now() >= end) return false;
      const ssize_t got = ::recv(get(), bytes.data(), bytes.size(), 0);
      if (got == 0 || (got < 0 && errno != EINTR)) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    }
    return true;
  }
};

/// The message of a process to rank 0.
struct Greeting {
  char program[8] = {'n', 'y', 's', 't', 'r', 'o', 'm', 2};
  std::int32_t rank = 0, size = 0;
  char run[32] = {};  // the checksum of the token

  Greeting() = default;
  explicit Greeting(const MeetingPlace& place) : rank(place.rank), size(place.size) {
    text_checksum(place.token).copy(run, sizeof run);
  }
};

/// The answer of a process that has the bytes.
constexpr std::byte thanks{1};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Null if the name is not known, now or yet.
Addresses addresses_of(const char* host, const std::string& port) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host, port.c_str(), &wanted, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

std::string shown(const MeetingPlace& place) { return place.host + ":" + place.port; }

/// Listens at the address of the host, and at no other of this machine.
Socket listen_at(const MeetingPlace& place) {
  const Addresses host = addresses_of(place.host.c_str(), place.port);
  require_input(host != nullptr, "{}: MASTER_ADDR is not known here", shown(place));
  int reason = 0;
  for (const addrinfo* each = host.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, each->ai_socktype, each->ai_protocol));
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    reason = errno;
  }
  throw InputError(fmt::format(
      "{}: cannot listen there: {}; {}", shown(place), std::strerror(reason),
      reason == EADDRNOTAVAIL ? "MASTER_ADDR must be an address of the machine of rank 0"
                              : "choose another MASTER_PORT"));
}

/// Rank 0 of a meeting.
class Host {
 public:
  Host(const MeetingPlace& place, std::span<const std::byte> bytes)
      : place_(place),
        bytes_(bytes),
        listening_(listen_at(place)),
        served_(static_cast<std::size_t>(place.size)) {
    served_[0] = true;
  }

  std::vector<std::string> missing() const {
    std::vector<std::string> ranks;
    for (std::size_t rank = 0; rank < served_.size(); ++rank)
      if (!served_[rank]) ranks.push_back(std::to_string(rank));
    return ranks;
  }

  /// Waits for at most 100 ms, and serves who has said something.
  void attend() {
    std::vector<pollfd> wanted = {{listening_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) wanted.push_back({guest.socket.get(), POLLIN, 0});
    ::poll(wanted.data(), wanted.size(), 100);
    for (std::size_t i = guests_.size(); i-- > 0;) {
      const bool stays =
          wanted[i + 1].revents == 0 ? Clock::now() < guests_[i].end : hear(guests_[i]);
      if (!stays) guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (wanted[0].revents == 0 || guests_.size() >= most_guests) return;
    Socket socket(::accept(listening_.get(), nullptr, nullptr));
    if (!socket.is_open()) return;
    socket.limit_time();
    guests_.push_back({std::move(socket), Clock::now() + limit_of_call});
  }

 private:
  static constexpr std::size_t most_guests = 512;

  /// A connection that has not said all yet.
  struct Guest {
    Socket socket;
    Clock::time_point end;
    Greeting greeting{};
    std::size_t heard = 0;
    bool given = false;
  };

  bool has_seat(const Greeting& greeting) const {
    Greeting expected(place_);
    expected.rank = greeting.rank;
    return std::memcmp(&greeting, &expected, sizeof expected) == 0 && greeting.rank > 0 &&
           greeting.rank < place_.size && !served_[static_cast<std::size_t>(greeting.rank)];
  }

  /// Reads what a guest says. Returns whether more is expected.
  bool hear(Guest& guest) {
    if (guest.given) {
      std::byte answer{};
      if (::recv(guest.socket.get(), &answer, 1, MSG_DONTWAIT) == 1 && answer == thanks)
        served_[static_cast<std::size_t>(guest.greeting.rank)] = true;
      return false;
    }
    const auto whole = std::as_writable_bytes(std::span(&guest.greeting, 1));
    const std::span<std::byte> rest = whole.subspan(guest.heard);
    const ::ssize_t got = ::recv(guest.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (got <= 0) return false;
    guest.heard += static_cast<std::size_t>(got);
    if (guest.heard < whole.size()) return true;
    guest.given = has_seat(guest.greeting) && guest.socket.send(bytes_);
    return guest.given;
  }

  const MeetingPlace& place_;
  std::span<const std::byte> bytes_;
  Socket listening_;
  std::vector<bool> served_;
  std::vector<Guest> guests_;
};

void give_to_all(const MeetingPlace& place, std::span<const std::byte> bytes,
                 Clock::time_point end) {
  Host host(place, bytes);
  for (auto missing = host.missing(); !missing.empty(); missing = host.missing()) {
    if (Clock::now() >= end)
      throw Error(fmt::format("rank 0 waited at {} in vain for ranks {}", shown(place),
                              long_list(missing)));
    host.attend();
  }
}

bool ask_once(const MeetingPlace& place, std::span<std::byte> bytes) {
  const Addresses addresses = addresses_of(place.host.c_str(), place.port);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const Socket socket(::socket(each->ai_family, each->ai_socktype, each->ai_protocol));
    if (!socket.is_open()) continue;
    socket.limit_time();
    if (::connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    const Greeting greeting(place);
    if (socket.send(std::as_bytes(std::span(&greeting, 1))) && socket.receive(bytes) &&
        socket.send(std::span(&thanks, 1)))
      return true;
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
