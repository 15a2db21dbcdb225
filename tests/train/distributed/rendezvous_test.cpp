// Processes that meet at an address.
#include "train/distributed/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/checksum.h"
#include "tests/support/errors.h"

namespace nystrom::testing {
namespace {

/// A port below those that the system gives out.
int next_port() {
  static int port = 4000 + static_cast<int>(::getpid() % 600) * 10;
  return ++port;
}

/// A socket at a port of this machine; with `listen` one that listens.
class LocalSocket {
 public:
  LocalSocket(int port, bool listen) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const auto* place = reinterpret_cast<const sockaddr*>(&address);
    if (listen) {
      EXPECT_EQ(::bind(descriptor_, place, sizeof address), 0);
      EXPECT_EQ(::listen(descriptor_, 1), 0);
      return;
    }
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    while (::connect(descriptor_, place, sizeof address) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ~LocalSocket() { ::close(descriptor_); }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  int receive_number() const {
    int number = -1;
    EXPECT_EQ(::recv(descriptor_, &number, sizeof number, MSG_WAITALL), sizeof number);
    return number;
  }

 private:
  int descriptor_ = ::socket(AF_INET, SOCK_STREAM, 0);
};

MeetingPlace place_of(int rank, int size, int port) {
  return {rank, size, "127.0.0.1", std::to_string(port), "run 7"};
}

/// What a process says that does not wait for others.
std::string error_at(const MeetingPlace& place) {
  int number = 1;
  return message_of([&] {
    share_from_first(place, std::as_writable_bytes(std::span(&number, 1)), std::chrono::seconds(0));
  });
}

/// The number of rank 0 as each process gets it; −1 stands for an error. `before` is called when
/// rank 0 alone has started.
std::vector<int> meet(
    int size, int port, const std::function<void()>& before = [] {}) {
  std::vector<int> numbers(static_cast<std::size_t>(size), -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) before();
    threads.emplace_back([&, rank] {
      int number = 100 + rank;
      const auto bytes = std::as_writable_bytes(std::span(&number, 1));
      const std::string error = message_of(
          [&] { share_from_first(place_of(rank, size, port), bytes, std::chrono::seconds(30)); });
      EXPECT_EQ(error, "");
      numbers[static_cast<std::size_t>(rank)] = number;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return numbers;
}

TEST(Rendezvous, AllGetTheBytesOfTheFirst) {
  EXPECT_EQ(meet(4, next_port()), (std::vector<int>(4, 100)));
}

TEST(Rendezvous, AGreetingMayComeInPieces) {
  const int port = next_port();
  std::thread first([&] {
    int number = 100;
    EXPECT_EQ(message_of([&] {
                share_from_first(place_of(0, 2, port),
                                 std::as_writable_bytes(std::span(&number, 1)),
                                 std::chrono::seconds(5));
              }),
              "");
  });
  const LocalSocket second(port, false);
  const std::int32_t rank_and_size[] = {1, 2};
  const std::string greeting =
      "nystrom\2" +
      std::string(reinterpret_cast<const char*>(rank_and_size), sizeof rank_and_size) +
      text_checksum("run 7");
  second.send(greeting.substr(0, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  second.send(greeting.substr(1));
  EXPECT_EQ(second.receive_number(), 100);
  second.send("\1");
  first.join();
}

TEST(Rendezvous, StrangersAreIgnored) {
  const int port = next_port();
  const auto strangers = [&] {
    LocalSocket(port, false).send("GET / HTTP/1.1\r\n\r\n");
    const LocalSocket silent(port, false);
  };
  EXPECT_EQ(meet(3, port, strangers), (std::vector<int>(3, 100)));
}

TEST(Rendezvous, ARunTakesNoSeatOfAnother) {
  const int port = next_port();
  std::thread other;
  const auto start = [&] {
    other = std::thread([&] {
      MeetingPlace place = place_of(1, 3, port);
      place.token = "run 8";
      int number = 1;
      EXPECT_NE(message_of([&] {
                  share_from_first(place, std::as_writable_bytes(std::span(&number, 1)),
                                   std::chrono::seconds(1));
                }),
                "");
      EXPECT_EQ(number, 1);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  EXPECT_EQ(meet(3, port, start), (std::vector<int>(3, 100)));
  other.join();
}

TEST(Rendezvous, ManySilentStrangersMakeNobodyWait) {
  const int port = next_port();
  std::vector<std::unique_ptr<LocalSocket>> strangers;
  const auto begin = std::chrono::steady_clock::now();
  const auto crowd = [&] {
    for (int i = 0; i < 20; ++i) strangers.push_back(std::make_unique<LocalSocket>(port, false));
  };
  EXPECT_EQ(meet(2, port, crowd), (std::vector<int>(2, 100)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST(Rendezvous, TheFirstListensAtItsAddressAlone) {
  const int port = next_port();
  const auto elsewhere = [&] {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const LocalSocket there(port, false);  // waits until it listens
    ::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_NE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
  };
  EXPECT_EQ(meet(2, port, elsewhere), (std::vector<int>(2, 100)));
}

TEST(Rendezvous, MissingProcessesAreNamed) {
  const int port = next_port();
  EXPECT_EQ(error_at(place_of(0, 3, port)),
            "rank 0 waited at 127.0.0.1:" + std::to_string(port) + " in vain for ranks 1, 2");
}

TEST(Rendezvous, AnAddressWithoutAnAnswerIsNamed) {
  const int port = next_port();
  EXPECT_EQ(error_at(place_of(1, 2, port)),
            "rank 1: no answer from rank 0 at 127.0.0.1:" + std::to_string(port) +
                " in 0 s; is MASTER_ADDR its machine, and the port open?");
}

TEST(Rendezvous, APortInUseIsNamed) {
  const int port = next_port();
  const LocalSocket other(port, true);
  EXPECT_EQ(error_at(place_of(0, 2, port)),
            "127.0.0.1:" + std::to_string(port) +
                ": cannot listen there: Address already in use; choose another MASTER_PORT");
}

}  // namespace
}  // namespace nystrom::testing
