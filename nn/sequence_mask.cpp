#include "nn/sequence_mask.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {

SequenceMask::SequenceMask(std::int64_t batch, std::int64_t length)
    : batch_(batch), length_(length), counts_(static_cast<std::size_t>(batch), length) {}

SequenceMask::SequenceMask(const Tensor& mask, Device device)
    : batch_(mask.dim(0)), length_(mask.dim(1)), device_(device), host_(mask.contiguous()) {
  require(mask.rank() == 2 && mask.dtype() == DType::u8,
          "an attention mask must be u8 [b, n], got {} {}", mask.dtype(), mask.shape());
  const auto* value = host_.data<std::uint8_t>();
  bool all = true;
  for (std::int64_t b = 0; b < batch_; ++b) {
    const auto count = std::count_if(value + b * length_, value + (b + 1) * length_,
                                     [](std::uint8_t v) { return v != 0; });
    counts_.push_back(count);
    all = all && count == length_;
  }
  if (all) {
    host_ = {};
  } else {
    valid_ = host_.to(device);
  }
}

std::vector<std::int64_t> SequenceMask::read_positions() const {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < batch_ * length_; ++i)
    if (!valid_.defined() || host_.data<std::uint8_t>()[i] != 0 || i % length_ == 0)
      result.push_back(i);
  return result;
}

std::vector<std::int64_t> SequenceMask::last_positions() const {
  std::vector<std::int64_t> last(static_cast<std::size_t>(batch_), length_ - 1);
  if (!valid_.defined()) return last;
  const auto* value = host_.data<std::uint8_t>();
  for (std::int64_t b = 0; b < batch_; ++b) {
    auto& position = last[static_cast<std::size_t>(b)];
    while (position >= 0 && value[b * length_ + position] == 0) --position;
  }
  return last;
}

SequenceMask SequenceMask::rows(const std::vector<std::int64_t>& index) const {
  if (!valid_.defined()) return {static_cast<std::int64_t>(index.size()), length_};
  std::vector<std::uint8_t> chosen;
  const auto* value = host_.data<std::uint8_t>();
  for (const std::int64_t row : index)
    chosen.insert(chosen.end(), value + row * length_, value + (row + 1) * length_);
  return SequenceMask(Tensor::from(chosen, {static_cast<std::int64_t>(index.size()), length_}),
                      device_);
}

}  // namespace nystrom
