#include "train/distributed/replicas.h"

#include "core/check.h"
#include "core/kernels.h"
#include "core/rng.h"

namespace nystrom {

std::uint64_t fingerprint(std::span<const Tensor> slabs) {
  std::vector<Tensor> sums;  // compute all before reading any: one wait for the GPU
  for (const Tensor& slab : slabs) {
    sums.push_back(Tensor::empty({1}, DType::i64, slab.device()));
    kernels::bit_sum(slab, sums.back());
  }
  std::uint64_t all = 0;
  for (const Tensor& sum : sums)
    all = mix64(all) ^ static_cast<std::uint64_t>(*sum.to(cpu_device).data<std::int64_t>());
  return all;
}

void require_same_replicas(Communicator& communicator, std::uint64_t print, const std::string& what,
                           const std::string& reason) {
  const auto found = communicator.find_divergent_rank(print);
  if (!found) return;
  throw Error(fmt::format("{} has other {} than {}: {}", communicator.name_of(found->rank), what,
                          communicator.name_of(found->majority), reason));
}

}  // namespace nystrom
