// NCCL for tests: the functions of train/distributed/nccl_transport.cpp, over sockets and the
// emulated runtime. It checks what NCCL demands and does not check itself: that all processes ask
// for the same operation, count, type and root; that pointers are the GPU's; that groups are
// closed. Calls on a communicator that does not block return before the operation is on the stream.
//
// NYSTROM_NCCL_FAULT="rank operation what" injects a fault at an operation of a rank: die, error
// (one that is found later), hang, or late (all of its operations wait for milliseconds).
#include <arpa/inet.h>
#include <nccl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/nccl_emulation/exchange.h"
#include "tests/nccl_emulation/hub.h"

using namespace nystrom::nccl_emulation;

/// The program's handle.
struct ncclComm {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::unique_ptr<Hub> hub;
  std::thread connecting;
  bool blocking = true;
  /// Operations that are not on their stream yet, and how often the program has asked since.
  std::vector<std::pair<cudaStream_t, std::vector<Work>>> unlaunched;
  int asked = 0;
};

namespace {

thread_local int group_depth = 0;
thread_local ncclComm_t group_communicator = nullptr;
thread_local cudaStream_t group_stream = nullptr;
thread_local std::vector<Work> group;

/// An error of this thread that belongs to no communicator.
thread_local std::string thread_error;

ncclResult_t refuse(ncclComm_t communicator, ncclResult_t status, const std::string& text) {
  std::fprintf(stderr, "emulated NCCL: %s\n", text.c_str());
  thread_error = text;
  if (communicator) communicator->shared->set(status, text);
  return status;
}

void launch(ncclComm_t communicator, cudaStream_t stream, std::vector<Work> works) {
  auto exchange = std::make_shared<Exchange>(communicator->shared, std::move(works));
  nystrom::emulation::enqueue(stream, [exchange] { return exchange->run(); });
}

ncclResult_t submit(ncclComm_t communicator, cudaStream_t stream, std::vector<Work> works) {
  if (communicator->blocking) {
    launch(communicator, stream, std::move(works));
    return ncclSuccess;
  }
  communicator->unlaunched.emplace_back(stream, std::move(works));
  return ncclInProgress;
}

ncclResult_t start(Part part, const void* source, void* target, ncclComm_t communicator,
                   cudaStream_t stream) {
  if (!communicator || part.peer >= communicator->shared->size)
    return refuse(communicator, ncclInvalidArgument, "no such communicator or process");
  Shared& shared = *communicator->shared;
  if (const ncclResult_t state = shared.now(); state != ncclSuccess) return state;
  if (!communicator->unlaunched.empty())
    return refuse(communicator, ncclInvalidUsage, "a call while another one is in progress");
  const std::size_t bytes = part.bytes();
  using nystrom::emulation::is_device_memory;
  if ((part.gives(shared.rank) && !is_device_memory(source, bytes)) ||
      (part.takes(shared.rank) && !is_device_memory(target, bytes)))
    return refuse(communicator, ncclInvalidArgument,
                  "memory that is not the GPU's: " + part.text());
  if (group_depth == 0) return submit(communicator, stream, {{part, source, target}});
  if (group_communicator && (group_communicator != communicator || group_stream != stream))
    return refuse(communicator, ncclInvalidUsage, "a group on two streams");
  group_communicator = communicator;
  group_stream = stream;
  group.push_back({part, source, target});
  return ncclSuccess;
}

/// The name of this machine in NCCL's eyes.
std::string host() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  char name[100] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

addrinfo* resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const std::string name = address.substr(0, colon), port = address.substr(colon + 1);
  return ::getaddrinfo(name.c_str(), port.c_str(), &hints, &found) == 0 ? found : nullptr;
}

/// A socket that listens at `address`, or −1. Port 0 becomes a free one.
int listen_at(std::string& address) {
  addrinfo* place = resolve(address);
  if (!place) return -1;
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = ::bind(socket, place->ai_addr, place->ai_addrlen) == 0;
  ::freeaddrinfo(place);
  if (!bound || ::listen(socket, 64) != 0) return ::close(socket), -1;
  sockaddr_in own{};
  socklen_t length = sizeof own;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length);
  address = address.substr(0, address.rfind(':') + 1) + std::to_string(ntohs(own.sin_port));
  return socket;
}

/// Connects to the hub, and waits until all processes are there.
void connect(Shared& shared, const std::string& address) {
  addrinfo* place = resolve(address);
  if (!place) return shared.set(ncclSystemError, "no address " + address);
  int socket = -1;
  while (!shared.aborted) {
    socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, place->ai_addr, place->ai_addrlen) == 0) break;
    ::close(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::freeaddrinfo(place);
  if (shared.aborted) return;
  shared.hub = std::make_unique<Connection>(socket);
  Hello hello{shared.rank, shared.size, shared.device, {}};
  std::snprintf(hello.host, sizeof hello.host, "%s", host().c_str());
  bool open = shared.hub->write(&hello, sizeof hello);
  while (open && !shared.aborted) {
    open = shared.hub->read();
    const auto* answer = shared.hub->front<Answer>();
    if (!answer || shared.hub->received.size() < sizeof(Answer) + answer->bytes) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto status = static_cast<ncclResult_t>(answer->status);
    const std::string text(shared.hub->received.data() + sizeof(Answer), answer->bytes);
    shared.hub->drop(sizeof(Answer) + answer->bytes);
    return shared.set(status, text);
  }
  shared.set(ncclRemoteError, "the connection is closed");
}

// The socket behind an id that this process has made.
std::mutex id_mutex;
std::string listening_address;
int listening_socket = -1;

Part part_of(Operation operation, std::size_t count, ncclDataType_t type, int peer) {
  return {operation, static_cast<std::uint32_t>(type), peer, 0, count};
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t communicator) {
  if (communicator) {
    const std::lock_guard lock(communicator->shared->mutex);
    if (!communicator->shared->error.empty()) thread_error = communicator->shared->error;
  }
  return thread_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(id_mutex);
  *id = {};
  std::string address = "127.0.0.1:0";
  listening_socket = listen_at(address);
  if (listening_socket < 0) return refuse(nullptr, ncclSystemError, "cannot listen");
  listening_address = address;
  std::snprintf(id->internal, sizeof id->internal, "%s", address.c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  auto made = std::make_unique<ncclComm>();
  Shared& shared = *made->shared;
  shared.rank = rank;
  shared.size = size;
  made->blocking = config->blocking != 0;
  cudaGetDevice(&shared.device);
  std::string address = id.internal;
  if (rank == 0) {
    const std::lock_guard lock(id_mutex);
    if (address != listening_address)
      return refuse(nullptr, ncclInvalidArgument, "an id that rank 0 did not make last");
    listening_address.clear();
    made->hub = std::make_unique<Hub>(listening_socket, size);
  }
  made->connecting = std::thread([shared = made->shared, address] { connect(*shared, address); });
  *communicator = made.release();
  if (!(*communicator)->blocking) return ncclInProgress;
  (*communicator)->connecting.join();
  return shared.now();
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  if (!communicator) return ncclInvalidArgument;
  *error = communicator->shared->now();
  if (*error != ncclSuccess || communicator->unlaunched.empty()) return ncclSuccess;
  // It takes NCCL a while.
  if (++communicator->asked % 3 != 0) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  for (auto& [stream, works] : communicator->unlaunched)
    launch(communicator, stream, std::move(works));
  communicator->unlaunched.clear();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (group_depth != 0) return refuse(communicator, ncclInvalidUsage, "a group is not closed");
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->connecting.joinable()) communicator->connecting.join();
  const std::uint64_t goodbye = 0;
  if (communicator->shared->hub) communicator->shared->hub->write(&goodbye, sizeof goodbye);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->shared->aborted = true;
  if (communicator->hub) communicator->hub->stop();
  if (communicator->connecting.joinable()) communicator->connecting.join();
  if (communicator->shared->hub) ::shutdown(communicator->shared->hub->socket(), SHUT_RDWR);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(nullptr, ncclInvalidUsage, "no group is open");
  if (--group_depth > 0 || group.empty()) return ncclSuccess;
  const ncclComm_t communicator = group_communicator;
  group_communicator = nullptr;
  return submit(communicator, group_stream, std::exchange(group, {}));
}

ncclResult_t ncclAllReduce(const void* source, void* target, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  return start(part_of(Operation::all_reduce, count, type, -1), source, target, communicator,
               stream);
}
ncclResult_t ncclReduce(const void* source, void* target, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t communicator, cudaStream_t stream) {
  return start(part_of(Operation::reduce, count, type, root), source, target, communicator, stream);
}
ncclResult_t ncclBroadcast(const void* source, void* target, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return start(part_of(Operation::broadcast, count, type, root), source, target, communicator,
               stream);
}
ncclResult_t ncclSend(const void* source, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return start(part_of(Operation::send, count, type, peer), source, nullptr, communicator, stream);
}
ncclResult_t ncclRecv(void* target, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return start(part_of(Operation::receive, count, type, peer), nullptr, target, communicator,
               stream);
}
