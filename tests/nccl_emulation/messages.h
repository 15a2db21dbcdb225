// What the processes of the emulated NCCL send each other: every process talks to the hub alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nystrom::nccl_emulation {

enum class Operation : std::uint32_t { all_reduce, reduce, broadcast, send, receive };

/// The first message of a process.
struct Hello {
  std::int32_t rank, size, device;
  char host[116];
};

/// One operation of a request.
struct Part {
  Operation operation;
  std::uint32_t type;  ///< an ncclDataType_t
  std::int32_t peer;   ///< the root or the other process; −1 for sums of all
  std::uint32_t unused;
  std::uint64_t count;

  bool collective() const { return operation < Operation::send; }
  /// Whether process `rank` sends numbers to the hub, and whether it receives some.
  bool gives(int rank) const {
    return operation != Operation::receive && (operation != Operation::broadcast || peer == rank);
  }
  bool takes(int rank) const {
    switch (operation) {
      case Operation::reduce: return peer == rank;
      case Operation::broadcast: return peer != rank;
      case Operation::send: return false;
      default: return true;
    }
  }
  std::size_t bytes() const;
  /// The operation in words.
  std::string text() const;
};

/// Precedes an answer's bytes: the numbers that all parts take, or the text of an error.
struct Answer {
  std::int32_t status;  ///< an ncclResult_t
  std::uint32_t unused;
  std::uint64_t bytes;
};

/// The parts that a process wants to be done together, and its numbers for them. A request without
/// parts says goodbye.
struct Request {
  std::vector<Part> parts;
  std::vector<char> numbers;
};

/// A connection to the hub or to a process. Reads never wait.
class Connection {
 public:
  explicit Connection(int socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  /// Sends all bytes. Returns false if the other side is gone.
  bool write(const void* bytes, std::size_t count) const;
  /// Takes what has arrived. Returns false if the other side is gone.
  bool read();
  /// The bytes that have arrived and are not taken.
  std::vector<char> received;
  /// Takes a T from the front, if it has arrived.
  template <class T>
  const T* front() const {
    return received.size() < sizeof(T) ? nullptr : reinterpret_cast<const T*>(received.data());
  }
  void drop(std::size_t count) {
    received.erase(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  int socket_;
};

}  // namespace nystrom::nccl_emulation
