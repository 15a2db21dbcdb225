#include <algorithm>
#include <cmath>

#include "nn/baselines.h"

namespace nystrom {
namespace {

constexpr double self_score = -1e5, no_score = -1e30;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class T>
auto& at(T& values, std::int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

/// The hash of a sequence of some length: one rotation or, for many buckets, two rotations whose
/// buckets are combined.
class Hash {
 public:
  Hash(std::int64_t tokens, std::int64_t chunk)
      : rotated_(std::max<std::int64_t>(1, ceil_divide(tokens, chunk))) {
    constexpr std::int64_t most = 32;
    two_ = rotated_ > most;
    if (two_)
      rotated_ = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(rotated_) / 2)));
  }
  std::int64_t directions() const { return two_ ? 2 * rotated_ : rotated_; }
  /// The bucket of a token whose product with direction i is x[i · stride].
  std::int64_t bucket(const double* x, std::int64_t stride) const {
    return two_ ? place(x, stride) + 2 * rotated_ * place(x + rotated_ * stride, stride)
                : place(x, stride);
  }

 private:
  /// argmax [x; −x].
  std::int64_t place(const double* x, std::int64_t stride) const {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < rotated_; ++i) {
      if (x[i * stride] > x[best * stride]) best = i;
    }
    std::int64_t least = 0;
    for (std::int64_t i = 1; i < rotated_; ++i) {
      if (x[i * stride] < x[least * stride]) least = i;
    }
    return -x[least * stride] > x[best * stride] ? rotated_ + least : best;
  }

  std::int64_t rotated_;
  bool two_;
};

/// The assignment of keys to queries. A slot is a position in the sorted and chunked order of one
/// round of one head of one sequence. Tokens and slots are numbered through all of [b, h, n] and
/// [b, h, rounds, chunks · chunk].
struct Plan {
  std::int64_t chunks = 0;                  // chunks of a round
  std::vector<std::int64_t> token_of_slot;  // index into [b, h, n], −1: none
  // The tokens of each chunk and the one before it: [b, h, rounds, chunks, 2 · chunk].
  std::vector<std::int64_t> window;
  std::vector<std::int64_t> slot_of_token;  // [b, h, n, rounds]
  std::vector<std::int64_t> place_of_slot;  // the inverse: index into [b, h, n, rounds], −1: none
  std::vector<double> score;  // added to scores: [b, h, rounds, chunks, chunk, 2 · chunk]
};

/// Fills the plan for one head of one sequence.
class HeadPlanner {
 public:
  HeadPlanner(Plan& plan, std::int64_t head, std::int64_t length, std::int64_t rounds,
              std::int64_t chunk, const std::int64_t* buckets)
      : plan_(plan),
        head_(head),
        length_(length),
        rounds_(rounds),
        chunk_(chunk),
        buckets_(buckets) {}

  void run() {
    for (std::int64_t r = 0; r < rounds_; ++r) sort(r);
    for (std::int64_t r = 0; r < rounds_; ++r) {
      for (std::int64_t c = 0; c < plan_.chunks; ++c) score_chunk(r, c);
    }
  }

 private:
  std::int64_t first_slot(std::int64_t round) const {
    return (head_ * rounds_ + round) * plan_.chunks * chunk_;
  }

  void sort(std::int64_t round) {
    std::vector<std::pair<std::int64_t, std::int64_t>> order;  // bucket, position
    for (std::int64_t t = 0; t < length_; ++t) order.emplace_back(buckets_[t * rounds_ + round], t);
    std::sort(order.begin(), order.end());
    std::int64_t slot = first_slot(round);
    for (const auto& [bucket, t] : order) {
      const std::int64_t token = head_ * length_ + t, place = token * rounds_ + round;
      at(plan_.token_of_slot, slot) = token;
      at(plan_.place_of_slot, slot) = place;
      at(plan_.slot_of_token, place) = slot++;
    }
  }

  void score_chunk(std::int64_t round, std::int64_t chunk) {
    const std::int64_t group = (head_ * rounds_ + round) * plan_.chunks + chunk, width = 2 * chunk_;
    for (std::int64_t j = 0; j < width; ++j) {
      const bool before_all = chunk == 0 && j < chunk_;
      at(plan_.window, group * width + j) =
          before_all ? -1 : at(plan_.token_of_slot, group * chunk_ - chunk_ + j);
    }
    for (std::int64_t i = 0; i < chunk_; ++i) {
      const std::int64_t query = at(plan_.token_of_slot, group * chunk_ + i);
      if (query < 0) continue;
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t key = at(plan_.window, group * width + j);
        if (key < 0) continue;
        at(plan_.score, (group * chunk_ + i) * width + j) =
            key == query ? self_score
                         : -std::log(static_cast<double>(rounds_that_meet(query, key)));
      }
    }
  }

  /// The number of rounds in which `query` attends to `key`.
  std::int64_t rounds_that_meet(std::int64_t query, std::int64_t key) const {
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < rounds_; ++r) {
      const std::int64_t back = at(plan_.slot_of_token, query * rounds_ + r) / chunk_ -
                                at(plan_.slot_of_token, key * rounds_ + r) / chunk_;
      count += back == 0 || back == 1;
    }
    return count;
  }

  Plan& plan_;
  std::int64_t head_, length_, rounds_, chunk_;
  const std::int64_t* buckets_;
};

/// The plan of `heads` heads of all sequences of `length` tokens.
Plan make_plan(std::int64_t heads, std::int64_t length, std::int64_t rounds, std::int64_t chunk,
               const std::vector<std::int64_t>& buckets) {
  Plan plan;
  plan.chunks = std::max<std::int64_t>(1, ceil_divide(length, chunk));
  const std::int64_t tokens = heads * length, slots = heads * rounds * plan.chunks * chunk;
  plan.token_of_slot.assign(static_cast<std::size_t>(slots), -1);
  plan.place_of_slot.assign(static_cast<std::size_t>(slots), -1);
  plan.slot_of_token.assign(static_cast<std::size_t>(tokens * rounds), -1);
  plan.window.assign(static_cast<std::size_t>(2 * slots), -1);
  plan.score.assign(static_cast<std::size_t>(2 * slots * chunk), no_score);
  for (std::int64_t head = 0; head < heads; ++head)
    HeadPlanner(plan, head, length, rounds, chunk, buckets.data() + head * length * rounds).run();
  return plan;
}

/// x divided by the root of its mean square, so that its length is √d. It is the layer
/// normalisation of [x, −x], whose mean is 0.
Var with_unit_mean_square(const Var& x) {
  constexpr double epsilon = 1e-6;
  const std::int64_t d = x.dim(-1);
  const Tensor one = Tensor::full({2 * d}, 1, x.dtype(), x.value().device()),
               zero = zeros_like(one);
  return slice(layer_norm(concat({x, -x}, -1), one, zero, epsilon), -1, 0, d);
}

/// How a layer hashes its queries.
struct Hashing {
  std::int64_t rounds, chunk;
  std::uint64_t seed;
  std::string stream;  ///< of the random rotations
};

/// The bucket of each token in each round: [b, h, n, rounds].
std::vector<std::int64_t> buckets_of(const Hashing& by, const Tensor& queries) {
  const std::int64_t b = queries.dim(0), h = queries.dim(1), n = queries.dim(2), d = queries.dim(3),
                     rounds = by.rounds;
  const Hash hash(n, by.chunk);
  const std::int64_t directions = hash.directions();
  // Stored as [directions, h, rounds, d], so that fewer directions are a prefix of more.
  const std::vector<double> values = normal_values(by.seed, by.stream, directions * h * rounds * d);
  const Tensor rotations = Tensor::from(values, {1, directions, h, rounds * d})
                               .transpose(1, 2)
                               .contiguous()
                               .reshape({1, h, directions * rounds, d});
  Tensor projected =
      Tensor::empty({b, h, n, directions * rounds}, queries.dtype(), queries.device());
  kernels::matmul(queries, rotations.cast(queries.dtype()).to(queries.device()).transpose(2, 3),
                  CView{}, projected, false, Precision::full);
  const std::vector<double> x = projected.to_doubles();
  std::vector<std::int64_t> result(static_cast<std::size_t>(b * h * n * rounds));
  for (std::int64_t row = 0; row < b * h * n; ++row)
    for (std::int64_t r = 0; r < rounds; ++r)
      at(result, row * rounds + r) = hash.bucket(&at(x, row * directions * rounds + r), rounds);
  return result;
}

/// Keys are queries, so these are the tokens alone.
Var attend_within_buckets(const Hashing& by, const Var& queries_in, const Var& values_in) {
  const DType exact = accumulate_dtype(queries_in.dtype());
  const Device device = queries_in.value().device();
  const Var q = cast(queries_in, exact), v = cast(values_in, exact);
  const std::int64_t b = q.dim(0), h = q.dim(1), n = q.dim(2), d = q.dim(3), width = v.dim(3),
                     rounds = by.rounds;
  // A shorter sequence fills its one chunk. Its hash is the same.
  const std::int64_t chunk = std::clamp<std::int64_t>(n, 1, by.chunk);
  const Plan plan = make_plan(b * h, n, rounds, chunk, buckets_of(by, q.value()));
  const std::int64_t groups = b * h * rounds * plan.chunks, tokens = b * h * n;
  const auto index = [&](const std::vector<std::int64_t>& rows) {
    return Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}).to(device);
  };
  const Tensor window = index(plan.window), slot_of_token = index(plan.slot_of_token);
  const auto rows_of = [&](const Var& x) { return reshape(x, {tokens, x.dim(-1)}); };

  const Var queries =
      reshape(gather_rows(rows_of(q), index(plan.token_of_slot)), {groups, chunk, d});
  const Var keys =
      reshape(gather_rows(rows_of(with_unit_mean_square(q)), window), {groups, 2 * chunk, d});
  const Var values = reshape(gather_rows(rows_of(v), window), {groups, 2 * chunk, width});
  // Places the scores of a query in all rounds side by side, for one softmax.
  const Tensor added = Tensor::from(plan.score, {groups, chunk, 2 * chunk}).cast(exact).to(device);
  const Var scores =
      matmul(queries, transpose(keys, 1, 2)) / std::sqrt(static_cast<double>(d)) + added;
  const Var by_token = gather_rows(reshape(scores, {groups * chunk, 2 * chunk}), slot_of_token);
  const Var weights = reshape(softmax(reshape(by_token, {tokens, rounds * 2 * chunk})),
                              {tokens * rounds, 2 * chunk});
  const Var by_slot =
      reshape(gather_rows(weights, index(plan.place_of_slot)), {groups, chunk, 2 * chunk});
  const Var parts =
      gather_rows(reshape(matmul(by_slot, values), {groups * chunk, width}), slot_of_token);
  return cast(reshape(sum(reshape(parts, {tokens, rounds, width}), 1), {b, h, n, width}),
              queries_in.dtype());
}

}  // namespace

TokenAttention reformer_attention(const Scope& scope, const ModelConfig& config) {
  const Hashing hashing{config.attention.num_hashes, config.attention.bucket_size,
                        static_cast<std::uint64_t>(config.attention.random_seed),
                        scope.path() + ".rotations"};
  return [hashing](const Var&, const Var& k, const Var& v, const std::vector<std::int64_t>&) {
    return attend_within_buckets(hashing, k, v);
  };
}

}  // namespace nystrom
