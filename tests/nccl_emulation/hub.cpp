#include "tests/nccl_emulation/hub.h"

#include <nccl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/dtype.h"

namespace nystrom::nccl_emulation {
namespace {

/// sums += values, in the type of the numbers, as processes would add one after the other.
template <class T>
void add(const char* values, char* sums, std::size_t count) {
  for (std::size_t at = 0; at < count * sizeof(T); at += sizeof(T)) {
    T x, y;
    std::memcpy(&x, values + at, sizeof x);
    std::memcpy(&y, sums + at, sizeof y);
    if constexpr (sizeof(T) == 2)
      y = T(static_cast<float>(x) + static_cast<float>(y));
    else
      y = static_cast<T>(x + y);
    std::memcpy(sums + at, &y, sizeof y);
  }
}

void add(std::uint32_t type, const char* values, char* sums, std::size_t count) {
  switch (type) {
    case ncclUint8: return add<std::uint8_t>(values, sums, count);
    case ncclFloat16: return add<f16>(values, sums, count);
    case ncclBfloat16: return add<bf16>(values, sums, count);
    case ncclFloat32: return add<float>(values, sums, count);
    default: return add<double>(values, sums, count);
  }
}

bool same(const Part& a, const Part& b) {
  return a.operation == b.operation && a.type == b.type && a.peer == b.peer && a.count == b.count;
}

}  // namespace

Hub::Hub(int listening, int size)
    : listening_(listening), size_(size), thread_([this] { serve(); }) {}

Hub::~Hub() {
  thread_.join();
  ::close(listening_);
}

void Hub::serve() {
  while (!stopped_ && !ended_) {
    std::vector<pollfd> sockets;
    if (!started_) sockets.push_back({listening_, POLLIN, 0});
    for (const auto& process : processes_)
      if (!process->left) sockets.push_back({process->connection.socket(), POLLIN, 0});
    if (sockets.empty()) return;
    if (::poll(sockets.data(), sockets.size(), 20) <= 0) continue;
    if (!started_ && sockets[0].revents) accept();
    for (const auto& process : processes_) {
      if (process->left || read(*process)) continue;
      process->left = true;
      const std::string who =
          process->hello ? "process " + std::to_string(process->hello->rank) : "a process";
      return fail(ncclRemoteError, who + " is gone");
    }
    if (!started_)
      start();
    else
      match();
  }
}

void Hub::accept() {
  const int socket = ::accept(listening_, nullptr, nullptr);
  if (socket >= 0) processes_.push_back(std::make_unique<Process>(socket));
}

bool Hub::read(Process& process) {
  Connection& from = process.connection;
  const bool open = from.read();
  if (!process.hello) {
    if (const auto* hello = from.front<Hello>()) {
      process.hello = *hello;
      from.drop(sizeof(Hello));
    }
    return open;
  }
  const auto* parts = from.front<std::uint64_t>();
  if (!parts || process.request) return open;
  if (*parts == 0) return process.left = true;
  const std::size_t head = sizeof(*parts) + *parts * sizeof(Part);
  if (from.received.size() < head) return open;
  Request request;
  request.parts.resize(*parts);
  std::memcpy(request.parts.data(), from.received.data() + sizeof(*parts), *parts * sizeof(Part));
  std::size_t bytes = 0;
  for (const Part& part : request.parts)
    if (part.gives(process.hello->rank)) bytes += part.bytes();
  if (from.received.size() < head + bytes) return open;
  const auto numbers = from.received.begin() + static_cast<std::ptrdiff_t>(head);
  request.numbers.assign(numbers, numbers + static_cast<std::ptrdiff_t>(bytes));
  from.drop(head + bytes);
  process.request = std::move(request);
  return open;
}

/// Compares the processes when all are there.
void Hub::start() {
  const auto introduced =
      std::count_if(processes_.begin(), processes_.end(), [](const auto& p) { return p->hello; });
  if (introduced < size_) return;
  std::sort(processes_.begin(), processes_.end(),
            [](const auto& a, const auto& b) { return a->hello->rank < b->hello->rank; });
  for (int r = 0; r < size_; ++r) {
    const Hello& own = *processes_[static_cast<std::size_t>(r)]->hello;
    if (own.rank != r || own.size != size_)
      return fail(ncclInvalidUsage, "the processes disagree about their number");
    for (int other = 0; other < r; ++other) {
      const Hello& before = *processes_[static_cast<std::size_t>(other)]->hello;
      if (before.device == own.device && std::strcmp(before.host, own.host) == 0)
        return fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(r) +
                                          " and rank " + std::to_string(other) + " both on GPU " +
                                          std::to_string(own.device));
    }
  }
  started_ = true;
  for (const auto& process : processes_) answer(*process, ncclSuccess, nullptr, 0);
}

void Hub::answer(Process& process, int status, const void* bytes, std::size_t count) {
  const Answer head{status, 0, count};
  process.connection.write(&head, sizeof head);
  process.connection.write(bytes, count);
  process.request.reset();
}

void Hub::fail(int status, const std::string& text) {
  for (const auto& process : processes_)
    if (!process->left) answer(*process, status, text.data(), text.size());
  ended_ = true;
}

std::string Hub::what_each_asks() const {
  std::string text;
  for (const auto& process : processes_) {
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(process->hello->rank) + ":";
    for (const Part& part : process->request->parts) text += " " + part.text();
  }
  return text;
}

bool Hub::needs_one_that_left(const Part& part) const {
  if (!part.collective()) return processes_.at(static_cast<std::size_t>(part.peer))->left;
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process->left; });
}

/// Does what can be done. When all processes wait and nothing can, they have broken the contract.
void Hub::match() {
  while (match_pairs()) {
  }
  const auto asks = [](const auto& process) { return process->request.has_value(); };
  if (ended_ || !std::any_of(processes_.begin(), processes_.end(), asks)) return;
  for (const auto& process : processes_) {
    if (!process->request) continue;
    for (const Part& part : process->request->parts)
      if (needs_one_that_left(part))
        return fail(ncclInvalidUsage,
                    "a process has left, and another one asks for " + part.text());
  }
  if (!std::all_of(processes_.begin(), processes_.end(), asks)) return;
  const std::vector<Part>& first = processes_[0]->request->parts;
  for (const auto& process : processes_) {
    const std::vector<Part>& parts = process->request->parts;
    if (!std::equal(parts.begin(), parts.end(), first.begin(), first.end(), same) ||
        !std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.collective(); }))
      return fail(ncclInvalidUsage, "the processes ask for different things: " + what_each_asks());
  }
  match_collectives();
}

/// Hands over what one process sends and another one receives. Returns whether there was a pair.
bool Hub::match_pairs() {
  const auto single = [](const auto& process, Operation operation) {
    return process->request && process->request->parts.size() == 1 &&
           process->request->parts[0].operation == operation;
  };
  for (const auto& sender : processes_) {
    if (!single(sender, Operation::send)) continue;
    const Part given = sender->request->parts[0];
    const auto& receiver = processes_.at(static_cast<std::size_t>(given.peer));
    if (!single(receiver, Operation::receive) ||
        receiver->request->parts[0].peer != sender->hello->rank)
      continue;
    const Part wanted = receiver->request->parts[0];
    if (given.count != wanted.count || given.type != wanted.type) {
      fail(ncclInvalidUsage,
           "a process sends " + given.text() + ", and that one wants to " + wanted.text());
      return false;
    }
    const std::vector<char> numbers = std::move(sender->request->numbers);
    answer(*receiver, ncclSuccess, numbers.data(), numbers.size());
    answer(*sender, ncclSuccess, nullptr, 0);
    return true;
  }
  return false;
}

void Hub::match_collectives() {
  std::vector<std::size_t> begins(processes_.size(), 0);
  std::vector<std::vector<char>> results(processes_.size());
  const std::size_t parts = processes_[0]->request->parts.size();
  for (std::size_t part = 0; part < parts; ++part) {
    reduce(part, begins, results);
    for (const auto& process : processes_) {
      const auto r = static_cast<std::size_t>(process->hello->rank);
      const Part& own = process->request->parts[part];
      if (own.gives(process->hello->rank)) begins[r] += own.bytes();
    }
  }
  for (std::size_t r = 0; r < processes_.size(); ++r)
    answer(*processes_[r], ncclSuccess, results[r].data(), results[r].size());
}

/// Appends the result of one part, whose numbers begin at `begins`, for those that take it.
void Hub::reduce(std::size_t part, const std::vector<std::size_t>& begins,
                 std::vector<std::vector<char>>& results) {
  std::vector<char> sums;
  for (std::size_t r = 0; r < processes_.size(); ++r) {
    const Request& request = *processes_[r]->request;
    const Part& own = request.parts[part];
    if (!own.gives(static_cast<int>(r))) continue;
    const char* numbers = request.numbers.data() + begins[r];
    if (sums.empty())
      sums.assign(numbers, numbers + own.bytes());
    else
      add(own.type, numbers, sums.data(), static_cast<std::size_t>(own.count));
  }
  for (std::size_t r = 0; r < processes_.size(); ++r)
    if (processes_[r]->request->parts[part].takes(static_cast<int>(r)))
      results[r].insert(results[r].end(), sums.begin(), sums.end());
}

}  // namespace nystrom::nccl_emulation
