// A batch of sequences as rows: their tokens one behind another, without padding, and offsets,
// which say where each sequence begins.
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

/// What becomes of padding in padded input. left_out: it has no rows. attends: its rows attend to
/// the tokens, and nothing attends to them. kept: it has rows as tokens have, and keys a mask, as
/// in Hugging Face's Nyströmformer (semantics transformers).
enum class Padding { left_out, attends, kept };

/// x [r, c], or dense [b, n, c], with its rows one behind another: [rows, c].
Var flat_rows(const Var& x);
/// Rows of a batch by their numbers; nothing: all.
using ChosenRows = std::optional<std::vector<std::int64_t>>;
/// Row numbers as a tensor: [p].
Tensor index_of(const std::vector<std::int64_t>& rows);

/// The sequences of a batch: sequence i has the rows offsets[i] … offsets[i + 1] − 1, its tokens in
/// order behind its rows of padding.
///
/// Where every position is a token, or padding is kept, the batch is dense: tensors of its rows
/// are [b, n, …]. Otherwise they are [r, …]. Padded input [b, n] has an element at each position,
/// and turns into rows here; input without padding has an element for each token. The first
/// position of a sequence has a row even where it is padding, because heads read it.
class Ragged {
 public:
  /// Padded input whose positions are all tokens.
  Ragged(std::int64_t batch, std::int64_t length);
  /// Padded input. `mask` [b, n] u8 on the CPU is 0 at padding, which may be anywhere in the row.
  explicit Ragged(const Tensor& mask, Device device = cpu_device,
                  Padding padding = Padding::left_out);
  /// Input without padding (ModelInput::offsets). With `padded_length` padding that is kept fills
  /// its sequences up to that length, and to the longest.
  Ragged(const std::vector<std::int64_t>& offsets, Device device,
         std::optional<std::int64_t> padded_length = {});

  /// The number of sequences.
  std::int64_t batch() const { return std::ssize(counts_); }
  /// The number of positions of a sequence: of the padded input, or of its longest sequence.
  std::int64_t length() const { return length_; }
  /// Whether the rows of all sequences are their positions.
  bool dense() const { return dense_; }
  /// The number of tokens of each sequence.
  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// With padding kept: [b, n] u8 on the device, 0 at padding. Undefined otherwise.
  const Tensor& key_mask() const { return key_mask_; }
  /// All rows of sequence i.
  RowRange rows(std::int64_t i) const;
  /// The rows of sequence i that are tokens, which are its last rows; unless padding is kept.
  RowRange tokens(std::int64_t i) const;
  /// The same, also with padding kept, which is no token.
  std::vector<std::int64_t> token_rows(std::int64_t i) const;
  /// The position in sequence i of each of these rows.
  std::vector<std::int64_t> places(std::int64_t i) const;
  /// The sequence of a row, and the position in it.
  struct Place {
    std::int64_t sequence, position;
  };
  Place place_of(std::int64_t row) const;
  /// Whether neighbouring rows of a sequence are neighbouring positions.
  bool without_gaps() const { return without_gaps_; }

  /// All sequences.
  const SequenceSpans& all() const { return all_; }
  /// The batch of which `rows` alone attend, sequence by sequence, and to all tokens. all() and
  /// split() count them from 0.
  Ragged attending_at(const std::vector<std::int64_t>& rows) const;
  /// The sequences of at most `tokens` tokens, and the longer ones.
  struct Split {
    std::optional<SequenceSpans> few, many;  ///< nothing: there are none
  };
  const Split& split(std::int64_t tokens) const;

  /// The rows of some elements of the input. Padding that has none is an Error.
  std::vector<std::int64_t> rows_of(std::vector<std::int64_t> elements) const;
  /// The rows of numbers of the input, on the CPU: [r] or, if the batch is dense, [b, n]. Rows that
  /// the input lacks get `padding`.
  Tensor rows_of(const Tensor& numbers, std::int64_t padding) const;
  /// The rows of x [b, n, …].
  Var rows_of(const Var& x) const;
  /// The rows of the input's features, with zeros in rows of padding, whatever it holds there. They
  /// are x itself where it holds these rows in order; others are gathered in type `type`.
  Tensor token_features(const Tensor& x, DType type) const;
  /// Rows x in the form of the input: [r, …] of tokens, or [b, n, …] with zeros at positions
  /// without a row.
  Var as_input(const Var& x) const;
  /// x [r, …] at the positions of its rows: [b, n, …], with zeros at others, and at padding if
  /// `tokens_alone`.
  Var in_places(const Var& x, bool tokens_alone = false) const;

  /// The context for modules that see these rows: their dropout is that of all positions. `run` is
  /// of whole sequences.
  RunContext of(const RunContext& run, const ChosenRows& chosen = {}) const;

 private:
  void make_spans();
  std::int64_t position_of(std::int64_t i, std::int64_t row) const;
  /// The row at each position of the flattened [b · n], or of each element of the input; −1: none.
  std::vector<std::int64_t> rows_by_position(bool tokens_alone) const;
  std::vector<std::int64_t> rows_by_element(bool tokens_alone) const;

  Device device_;
  std::int64_t length_;
  bool dense_ = true, without_gaps_ = true, padded_input_ = true;
  bool in_order_ = true;  // whether the rows are the elements of the input in their order
  std::vector<std::int64_t> offsets_, counts_;
  // The position of each row in its sequence; empty: rows are in the places of their order.
  std::vector<std::int64_t> places_;
  Tensor tokens_, key_mask_;       // with padding kept: on the CPU, and on the device
  std::vector<RowRange> queries_;  // the rows of each sequence that attend; empty: all
  SequenceSpans all_;
  /// Made when they are asked for.
  std::shared_ptr<std::map<std::int64_t, Split>> splits_ =
      std::make_shared<std::map<std::int64_t, Split>>();
};

}  // namespace nystrom
