#include "train/distributed/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/checksum.h"
#include "core/check.h"
#include "core/cuda/runtime.h"
#include "train/distributed/hang_detector.h"
#include "train/distributed/transport.h"

namespace nystrom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string own_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "an unknown host";
}

/// A tensor of a pending operation. It is kept alive and, on a GPU, has an event after which it is
/// ready.
struct PendingTensor {
  Tensor values;
  std::shared_ptr<cuda::Event> ready{};

  explicit PendingTensor(const Tensor& tensor) : values(tensor) {
    require(values.is_contiguous(), "communication needs contiguous tensors, got {}",
            values.shape());
    if (!values.device().is_cpu()) ready = std::make_shared<cuda::Event>(values.device().index);
  }
  Buffer buffer() const {
    Tensor writable = values;
    const View view = writable;
    return {view.data, values.numel(), values.dtype(), ready ? ready->handle() : nullptr};
  }
};

}  // namespace

/// The communicator's thread and its queue of operations.
struct Communicator::Worker {
  struct Work {
    std::function<void(Transport&)> run;
    bool collective;
  };

  std::function<std::unique_ptr<Transport>()> connect;
  Transport* transport = nullptr;  // valid while the thread runs
  std::mutex mutex;                // protects everything below
  std::condition_variable arrival, done;
  std::deque<Work> queue;
  std::int64_t posted = 0, completed = 0;
  // Completed collective operations: equal in all processes that have reached the same point.
  std::int64_t collectives = 0;
  Clock::time_point last_completed;
  std::exception_ptr error;
  double working_seconds = 0;
  bool stop = false, end_now = false;
  std::optional<HangDetector> hang_detector;  // used by the caller only
  double limit = 0;                           // of a TimeLimit in force; used by the caller only
  std::thread thread;

  explicit Worker(std::function<std::unique_ptr<Transport>()> connector)
      : connect(std::move(connector)), thread([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    arrival.notify_all();
    thread.join();
  }

  void run() {
    std::unique_ptr<Transport> connected;
    try {
      connected = connect();
      {
        const std::lock_guard lock(mutex);
        transport = connected.get();
      }
      serve(*connected);
      const std::lock_guard lock(mutex);
      transport = nullptr;
    } catch (...) {
      fail(connected);
    }
  }

  /// Passes the error to the caller, which ends the process. The transport is not destroyed,
  /// because that would wait for the other processes.
  void fail(std::unique_ptr<Transport>& connected) {
    std::unique_lock lock(mutex);
    error = std::current_exception();
    done.notify_all();
    if (!connected) return;
    arrival.wait(lock, [&] { return stop || end_now; });
    if (end_now) connected->serve_end();
    static_cast<void>(connected.release());
  }

  /// Starts operations as they arrive. On a GPU several run at a time: the thread asks for the
  /// oldest again and again, and starts what arrives meanwhile.
  void serve(Transport& connection) {
    constexpr auto moment = std::chrono::microseconds(20);
    std::deque<Work> started;  // keeps tensors alive
    std::unique_lock lock(mutex);
    const auto called = [&] { return stop || end_now || !queue.empty(); };
    while (true) {
      if (started.empty()) arrival.wait(lock, called);
      const Clock::time_point start = Clock::now();
      if (!started.empty())
        arrival.wait_for(lock, moment, [&] { return end_now || !queue.empty(); });
      if (end_now) connection.serve_end();
      if (queue.empty() && started.empty()) return;
      if (!queue.empty()) {
        started.push_back(std::move(queue.front()));
        queue.pop_front();
        lock.unlock();
        started.back().run(connection);
      } else {
        lock.unlock();
      }
      const std::size_t unfinished = connection.unfinished();
      lock.lock();
      working_seconds += seconds_since(start);
      count_completed(started, unfinished);
    }
  }

  /// Removes operations that are done.
  void count_completed(std::deque<Work>& started, std::size_t unfinished) {
    if (started.size() == unfinished) return;
    for (; started.size() > unfinished; started.pop_front()) {
      ++completed;
      if (started.front().collective) ++collectives;
    }
    last_completed = Clock::now();
    done.notify_all();
  }
};

Communicator::Communicator() : hosts_{own_host()} {}

Communicator::Communicator(std::function<std::unique_ptr<Transport>()> connect)
    : worker_(std::make_unique<Worker>(std::move(connect))) {
  post([this](Transport& transport) {
    rank_ = transport.rank();
    size_ = transport.size();
    local_rank_ = transport.local_rank();
  });
  wait();
  hosts_.assign(static_cast<std::size_t>(size_), "");
  hosts_ = gather(own_host());
}

Communicator::~Communicator() = default;

std::string Communicator::name_of(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_.at(static_cast<std::size_t>(rank)));
}

void Communicator::post(std::function<void(Transport&)> work, bool collective) {
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->queue.push_back({std::move(work), collective});
    ++worker_->posted;
  }
  worker_->arrival.notify_all();
}

void Communicator::post(const Tensor& values, Operation operation) {
  if (!worker_) return;
  const bool collective = operation.kind != Operation::send && operation.kind != Operation::receive;
  post([pending = PendingTensor(values), operation = std::move(operation)](
           Transport& transport) { transport.run(operation, pending.buffer()); },
       collective);
}

void Communicator::wait() {
  if (!worker_) return;
  Worker& w = *worker_;
  const Clock::time_point start = Clock::now();
  const double moment = w.limit > 0 ? std::min(1.0, w.limit / 8) : 1.0;
  Clock::time_point heard = start, polled = start;
  double silence = 0;
  std::unique_lock lock(w.mutex);
  const auto ended = [&] { return w.completed == w.posted || w.error; };
  while (!w.done.wait_for(lock, std::chrono::duration<double>(moment), ended)) {
    if (w.limit == 0) continue;
    if (w.last_completed > heard) {
      heard = polled = w.last_completed;
      silence = 0;
    }
    // If this process or its machine was suspended meanwhile, the others could not answer. So each
    // poll counts as two moments at most.
    silence += std::min(seconds_since(polled), 2 * moment);
    polled = Clock::now();
    const std::int64_t operation = w.collectives;
    lock.unlock();
    if (const auto message = w.hang_detector->waiting(operation, silence))
      throw ProcessLost(*message);
    lock.lock();
  }
  if (w.error) std::rethrow_exception(w.error);
  lock.unlock();
  if (w.hang_detector) w.hang_detector->answered();
  waiting_seconds_ += seconds_since(start);
}

void Communicator::all_reduce(const Tensor& values) { post(values, {Operation::all_reduce}); }
void Communicator::reduce(const Tensor& values, int root) {
  post(values, {Operation::reduce, root});
}
void Communicator::broadcast(const Tensor& values, int root) {
  post(values, {Operation::broadcast, root});
}
void Communicator::send(const Tensor& values, int to) { post(values, {Operation::send, to}); }
void Communicator::receive(const Tensor& values, int from) {
  post(values, {Operation::receive, from});
}
void Communicator::all_gather(const Tensor& all, std::vector<std::int64_t> bounds) {
  if (!worker_) return;
  require(bounds.size() == static_cast<std::size_t>(size_) + 1 && bounds.front() == 0 &&
              bounds.back() == all.numel(),
          "all_gather: {} bounds for {} processes and {} elements", bounds.size(), size_,
          all.numel());
  post(all, {Operation::all_gather, 0, std::move(bounds)});
}

std::vector<double> Communicator::sum(std::vector<double> values) {
  if (!worker_) return values;
  const Tensor exchanged = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  all_reduce(exchanged);
  wait();
  return exchanged.to_doubles();
}

std::vector<std::string> Communicator::gather(const std::string& text) {
  if (!worker_) return {text};
  std::vector<double> sizes(static_cast<std::size_t>(size_), 0);
  sizes[static_cast<std::size_t>(rank_)] = static_cast<double>(text.size());
  sizes = sum(sizes);
  std::vector<std::int64_t> bounds = {0};
  for (const double size : sizes) bounds.push_back(bounds.back() + static_cast<std::int64_t>(size));
  Tensor all = Tensor::empty({bounds.back()}, DType::u8);
  auto* bytes = reinterpret_cast<char*>(all.data<std::uint8_t>());
  std::copy(text.begin(), text.end(), bytes + bounds[static_cast<std::size_t>(rank_)]);
  all_gather(all, bounds);
  wait();
  std::vector<std::string> texts;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r)
    texts.emplace_back(bytes + bounds[r], bytes + bounds[r + 1]);
  return texts;
}

void Communicator::share(std::int64_t parts,
                         const std::function<std::vector<double>(std::int64_t)>& compute,
                         const std::function<void(std::int64_t, std::span<const double>)>& use) {
  for (std::int64_t begin = 0; begin < parts; begin += size_) {
    std::string own;
    if (begin + rank_ < parts) {
      const std::vector<double> numbers = compute(begin + rank_);
      own.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
    }
    const std::vector<std::string> all = gather(own);
    for (std::int64_t part = begin; part < std::min(begin + size_, parts); ++part) {
      const std::string& bytes = all[static_cast<std::size_t>(part - begin)];
      std::vector<double> numbers(bytes.size() / sizeof(double));
      std::memcpy(numbers.data(), bytes.data(), bytes.size());
      use(part, numbers);
    }
  }
}

std::optional<Communicator::DivergentRank> Communicator::find_divergent_rank(std::uint64_t value) {
  if (size_ == 1) return std::nullopt;
  // Each process fills its own element of a sum. A double holds 32 bits exactly.
  std::vector<double> halves(2 * static_cast<std::size_t>(size_), 0);
  const auto own = 2 * static_cast<std::size_t>(rank_);
  halves[own] = static_cast<double>(value >> 32);
  halves[own + 1] = static_cast<double>(value & 0xffffffffu);
  halves = sum(halves);
  std::vector<std::pair<double, double>> values;
  for (std::size_t i = 0; i < halves.size(); i += 2) values.emplace_back(halves[i], halves[i + 1]);
  const auto how_often = [&](const auto& each) { return std::ranges::count(values, each); };
  if (how_often(values[0]) == std::ssize(values)) return std::nullopt;
  const auto most = std::ranges::max_element(values, {}, how_often);
  const auto odd = std::ranges::find_if(values, [&](const auto& each) { return each != *most; });
  return DivergentRank{static_cast<int>(odd - values.begin()),
                       static_cast<int>(most - values.begin())};
}

std::optional<Communicator::DivergentRank> Communicator::find_divergent_rank(
    std::string_view text) {
  return find_divergent_rank(checksum_of_items(text).high);
}

void Communicator::require_same_options(const std::string& options) {
  const auto found = find_divergent_rank(options);
  if (!found) return;
  throw InputError(fmt::format(
      "{} has another configuration than {}: give all processes the same file and options",
      name_of(found->rank), name_of(found->majority)));
}

void Communicator::require_same_files(const std::string& option, const std::string& identity) {
  const auto found = find_divergent_rank(identity);
  if (!found) return;
  throw InputError(
      fmt::format("{}: {} reads other files there than {}: copy the same ones to all machines",
                  option, name_of(found->rank), name_of(found->majority)));
}

std::string Communicator::from_first(const std::string& text) {
  return gather(is_first() ? text : "").front();
}

Communicator::TimeLimit::TimeLimit(Communicator& communicator, std::filesystem::path folder,
                                   double seconds)
    : communicator_(communicator) {
  if (!communicator.worker_) return;
  communicator.worker_->hang_detector.emplace(
      std::move(folder), communicator.rank_, communicator.size_, seconds,
      [&communicator](int rank) { return communicator.name_of(rank); });
  communicator.barrier();  // without a limit: after rank 0 has removed old files of the folder
  communicator.worker_->limit = seconds;
}

Communicator::TimeLimit::~TimeLimit() {
  if (!communicator_.worker_) return;
  communicator_.worker_->limit = 0;
  communicator_.worker_->hang_detector.reset();
}

double Communicator::working_seconds() const {
  if (!worker_) return 0;
  const std::lock_guard lock(worker_->mutex);
  return worker_->working_seconds;
}

void Communicator::end_all(int code) {
  if (worker_) {
    {
      const std::lock_guard lock(worker_->mutex);
      if (worker_->transport) worker_->transport->request_end(code);
      worker_->end_now = true;
    }
    worker_->arrival.notify_all();
    std::this_thread::sleep_for(
        std::chrono::seconds(3));  // the thread ends this process; otherwise this call does
  }
  std::_Exit(code);
}

}  // namespace nystrom
