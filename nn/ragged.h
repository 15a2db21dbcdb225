// A batch of sequences as rows: their tokens one behind another, without padding, and which rows
// belong to which sequence.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/row_spans.h"
#include "nn/layers.h"

namespace nystrom {

/// Some sequences of a batch: the rows that attend, and the tokens that they see. Of a dense batch
/// both are dense.
struct SequenceSpans {
  RowSpans queries, keys;
};

/// What becomes of padding. left_out: it has no rows. attends: its rows attend to the tokens, and
/// nothing attends to them. kept: it has rows as tokens have, and keys a mask, as in Hugging Face's
/// Nyströmformer (semantics transformers).
enum class Padding { left_out, attends, kept };

/// The rows of x [r, c], or of dense [b, n, c], one behind another: [rows, c].
Var flat_rows(const Var& x);

/// The sequences of a batch, out of positions [b, n].
///
/// Without padding, or with padding kept, the batch is dense: tensors of its rows are [b, n, …].
/// Otherwise they are [r, …]: the rows of a sequence are its tokens in order, behind its rows of
/// padding. Of padding that is left out the first position of a sequence has a row all the same,
/// which attends, because heads read it.
class Ragged {
 public:
  /// Every position is a token.
  Ragged(std::int64_t batch, std::int64_t length);
  /// `mask` [b, n] u8 on the CPU is 0 at padding, which may be anywhere in the row.
  explicit Ragged(const Tensor& mask, Device device = cpu_device,
                  Padding padding = Padding::left_out);
  /// Sequences of an input without padding (ModelInput::offsets). Padding that is kept fills them
  /// up to the longest, and to `length`.
  Ragged(const std::vector<std::int64_t>& offsets, Device device, Padding padding,
         std::int64_t length);

  /// The number of sequences.
  std::int64_t batch() const { return std::ssize(counts_); }
  /// The number of positions of a sequence.
  std::int64_t length() const { return length_; }
  /// Whether the rows are all positions in their order.
  bool dense() const { return positions_.empty(); }
  /// The number of tokens of each sequence.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// With padding kept: [b, n] u8 on the device, 0 at padding. Undefined otherwise.
  const Tensor& key_mask() const { return key_mask_; }
  /// The position in its sequence of each row of sequence i that is a token.
  std::vector<std::int64_t> places(std::int64_t i) const;
  /// The rows of sequence i that are tokens, its last; of a ragged batch.
  const RowRange& tokens(std::int64_t i) const { return tokens_[static_cast<std::size_t>(i)]; }
  /// All rows of sequence i; of a ragged batch.
  RowRange rows(std::int64_t i) const;
  /// Whether neighbouring rows of a sequence are neighbouring positions.
  bool without_gaps() const { return without_gaps_; }
  /// The position of each sequence's last token, −1 for one without tokens.
  std::vector<std::int64_t> last_positions() const;

  /// All sequences.
  const SequenceSpans& all() const { return all_; }
  /// The batch of which some rows alone attend, and to all tokens: those of `positions` of the
  /// flattened [b · n], sequence by sequence. all() and split() count them from 0.
  Ragged attending_at(const std::vector<std::int64_t>& positions) const;
  /// The sequences of at most `tokens` tokens, and the longer ones.
  struct Split {
    std::optional<SequenceSpans> few, many;  ///< nothing: there are none
  };
  const Split& split(std::int64_t tokens) const;

  /// Whether the input has no padding.
  bool input_is_rows() const { return input_is_rows_; }
  /// The positions in the flattened [b · n] of some elements of the input.
  std::vector<std::int64_t> positions_of(std::vector<std::int64_t> elements) const;
  /// The rows of numbers of the input, on the CPU: [r] or, if the batch is dense, [b, n]. Rows that
  /// the input lacks get `padding`.
  Tensor rows_of(const Tensor& numbers, std::int64_t padding) const;
  /// The rows of x [b, n, c].
  Var rows_of(const Var& x) const;
  /// The rows of the input's features, with zeros in rows of padding, whatever it holds there. They
  /// are x itself where it holds these rows in order; others are gathered in type `type`.
  Tensor token_features(const Tensor& x, DType type) const;
  /// Rows x in the form of the input: [r, …] of tokens, or [b, n, …] with zeros at positions
  /// without a row.
  Var as_input(const Var& x) const;
  /// The inverse: x [r, …] → [b, n, …], with zeros at positions without a row.
  Var in_places(const Var& x) const;
  /// The same with zeros at all positions that are no tokens.
  Var tokens_in_places(const Var& x) const;
  /// The numbers of the rows of `positions` of the flattened [b · n], which must have rows: [p].
  Tensor rows_at(const std::vector<std::int64_t>& positions) const;

  /// The context for modules that see these rows, or those of `positions`: their dropout is that of
  /// all positions. `run` is of whole sequences.
  RunContext of(const RunContext& run) const;
  RunContext of(const RunContext& run, const std::vector<std::int64_t>& positions) const;

 private:
  /// The element of the input at each row, −1 for none.
  std::vector<std::int64_t> elements() const;
  /// Rows of x by their numbers, −1 for zeros, one for each position: [b, n, …].
  Var of_positions(const Var& x, const Tensor& rows) const;

  Device device_;
  std::int64_t length_;
  std::vector<std::int64_t> counts_;
  bool input_is_rows_ = false;
  std::vector<std::int64_t> input_positions_;  // of each element of an input without padding
  bool input_in_order_ = true;      // whether the rows are the elements of the input in their order
  std::vector<std::uint8_t> mask_;  // of positions; empty: all are tokens
  std::vector<std::int64_t> positions_;  // of the flattened [b · n], of each row; empty: all
  std::vector<std::int64_t> row_of_;     // of each position; −1: none
  std::vector<RowRange> tokens_;
  bool without_gaps_ = true;
  Tensor key_mask_, index_, places_;  // index_: positions_, places_: row_of_, on the device
  SequenceSpans all_;
  std::vector<RowRange> attending_;  // the queries of each sequence; empty: all its rows
  /// Made when they are asked for.
  std::shared_ptr<std::map<std::int64_t, Split>> splits_ =
      std::make_shared<std::map<std::int64_t, Split>>();
};

}  // namespace nystrom
