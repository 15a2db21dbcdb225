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
      piece_(options.sequence_length - options.reserved - around()) {
  require_input(piece_ >= min_piece_tokens,
                "packing: sequences of {} tokens, of which {} are cls and sep, cannot hold pieces "
                "of {}; at least {} expected",
                options.sequence_length, around(), min_piece_tokens,
                min_piece_tokens + around() + options.reserved);
  require_input((!options.cross_documents && options.reserved == 0) || around() > 0,
                "packing: the tokenizer has no sep token, which would stand between documents or "
                "segments; set data.cross_documents and masking.sentence_order to false");
  require(!options.isolated || (!options.cross_documents && options.reserved == 0),
          "packing: isolated pieces are of one document, and without room for more tokens");
  index_documents();
  require_input(size_ > 0, "no document has {} tokens; give longer texts", min_piece_tokens);
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
    std::vector<TokenRange> none;
    size_ += samples_within(bound, -1, none);
  }
  if (!options_.cross_documents) return;
  const std::int64_t length = dataset_->tokens() + dataset_->documents() - 1;  // of the stream
  size_ = length / piece_ + (length % piece_ >= min_piece_tokens ? 1 : 0);
}

std::vector<TokenRange> Packing::ranges(std::int64_t sample) const {
  require(sample >= 0 && sample < size_, "Packing: sample {} of {}", sample, size_);
  return options_.cross_documents ? across(sample) : within(sample);
}

/// The number of samples of a block of documents. `found` gets the ranges of number `wanted`.
std::int64_t Packing::samples_within(const std::vector<std::int64_t>& bound, std::int64_t wanted,
                                     std::vector<TokenRange>& found) const {
  std::int64_t samples = 0, room = 0;  // of the last sample
  for (std::size_t i = 0; i + 1 < bound.size(); ++i) {
    const std::int64_t length = bound[i + 1] - bound[i], full = length / piece_,
                       rest = length % piece_;
    if (wanted >= samples && wanted < samples + full)
      found = {{bound[i] + (wanted - samples) * piece_, piece_}};
    samples += full;
    if (full > 0) room = 0;
    if (rest < min_piece_tokens) continue;
    const std::int64_t needed = rest + around();
    if (needed > room) {
      ++samples;
      room = options_.isolated ? options_.sequence_length : needed;
    }
    room -= needed;
    if (wanted == samples - 1) found.push_back({bound[i + 1] - rest, rest});
  }
  return samples;
}

std::vector<TokenRange> Packing::within(std::int64_t sample) const {
  const auto block = std::upper_bound(blocks_.begin(), blocks_.end(), sample) - blocks_.begin() - 1;
  std::vector<TokenRange> ranges;
  samples_within(bounds(block * block_documents, block_documents),
                 sample - blocks_[static_cast<std::size_t>(block)], ranges);
  return ranges;
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
  std::vector<std::int64_t> result;
  const bool wrapped = around() > 0;
  for (const TokenRange& range : ranges(sample)) {
    if (wrapped && (result.empty() || options_.isolated)) result.push_back(special.cls);
    for (const std::uint32_t id : dataset_->read(range.first, range.count)) result.push_back(id);
    if (wrapped) result.push_back(special.sep);
  }
  return result;
}

std::vector<std::int64_t> sequence_lengths(const Packing& packing, std::int64_t sample,
                                           std::span<const std::int64_t> ids) {
  if (!packing.options().isolated) return {std::ssize(ids)};
  std::vector<std::int64_t> lengths;
  for (const TokenRange& range : packing.ranges(sample))
    lengths.push_back(range.count + packing.around());
  return lengths;
}

}  // namespace nystrom
