#include "data/pretraining/packing.h"

#include <algorithm>

#include "core/check.h"

namespace nystrom {
namespace {

// The number of documents for each entry of the index. A search scans as many to find a sample.
constexpr std::int64_t block_documents = 1024;

}  // namespace

Packing::Packing(std::shared_ptr<const TokenDataset> dataset, PackingOptions options)
    : dataset_(std::move(dataset)),
      options_(options),
      piece_(options.sequence_length - options.reserved - 2) {
  require_input(options.minimum_piece >= 1 && piece_ >= 2 && options.minimum_piece <= piece_,
                "packing: sequences of {} tokens, of which 2 are cls and sep, cannot hold pieces "
                "of {}; at least 4 and minimum_piece + 2 expected",
                options.sequence_length, options.minimum_piece);
  index_documents();
  require_input(size_ > 0, "packing: no document of the data set has {} tokens",
                options.minimum_piece);
}

std::int64_t Packing::samples_of(std::int64_t length) const {
  return length / piece_ + (length % piece_ >= options_.minimum_piece ? 1 : 0);
}

/// Starts of documents, and the end of the last.
std::vector<std::int64_t> Packing::bounds(std::int64_t first, std::int64_t count) const {
  const std::int64_t documents = dataset_->documents(), last = std::min(first + count, documents);
  std::vector<std::int64_t> result =
      dataset_->document_starts(first, std::min(last + 1, documents) - first);
  if (last == documents) result.push_back(dataset_->tokens());
  return result;
}

void Packing::index_documents() {
  for (std::int64_t first = 0; first < dataset_->documents(); first += block_documents) {
    const std::vector<std::int64_t> bound = bounds(first, block_documents);
    blocks_.push_back(options_.cross_documents ? bound.front() + first : size_);
    if (options_.cross_documents) continue;
    for (std::size_t i = 1; i < bound.size(); ++i) size_ += samples_of(bound[i] - bound[i - 1]);
  }
  if (options_.cross_documents) size_ = samples_of(dataset_->tokens() + dataset_->documents() - 1);
}

std::vector<TokenRange> Packing::ranges(std::int64_t sample) const {
  require(sample >= 0 && sample < size_, "Packing: sample {} of {}", sample, size_);
  return options_.cross_documents ? across(sample) : within(sample);
}

std::vector<TokenRange> Packing::within(std::int64_t sample) const {
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), sample) - blocks_.begin() - 1;
  std::int64_t rest = sample - blocks_[static_cast<std::size_t>(block)];
  const std::vector<std::int64_t> bound = bounds(block * block_documents, block_documents);
  std::size_t document = 0;
  for (; document + 2 < bound.size(); ++document) {
    const std::int64_t samples = samples_of(bound[document + 1] - bound[document]);
    if (rest < samples) break;
    rest -= samples;
  }
  const std::int64_t first = bound[document] + rest * piece_;
  return {{first, std::min(piece_, bound[document + 1] - first)}};
}

std::vector<TokenRange> Packing::across(std::int64_t sample) const {
  // Document d is at start(d) + d in the stream, because each earlier document adds a sep.
  const std::int64_t begin = sample * piece_, end = begin + piece_;
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), begin) - blocks_.begin() - 1;
  std::vector<TokenRange> result;
  for (std::int64_t first = block * block_documents; first < dataset_->documents();
       first += block_documents) {
    const std::vector<std::int64_t> bound = bounds(first, block_documents);
    for (std::size_t i = 0; i + 1 < bound.size(); ++i) {
      const std::int64_t shift = first + static_cast<std::int64_t>(i);
      const std::int64_t from = std::max(bound[i] + shift, begin),
                         to = std::min(bound[i + 1] + shift, end);
      if (from < to) result.push_back({from - shift, to - from});
    }
    if (bound.back() + first + block_documents >= end) break;
  }
  return result;
}

std::vector<std::int64_t> Packing::ids(std::int64_t sample) const {
  const SpecialIds& special = dataset_->info().special;
  std::vector<std::int64_t> result{special.cls};
  for (const TokenRange& range : ranges(sample)) {
    for (const std::uint32_t id : dataset_->read(range.first, range.count)) result.push_back(id);
    result.push_back(special.sep);
  }
  return result;
}

}  // namespace nystrom
