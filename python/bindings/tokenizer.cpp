// Tokenizers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "data/tokenizers/encoding.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "docs.h"
#include "python/bindings/bindings.h"
#include "train/state/model_folder.h"

namespace nystrom::python {
namespace {

using Strings = std::vector<std::string>;

/// The meaning of names of special tokens in a text.
SpecialNames names_of(bool parse_special_tokens) {
  return parse_special_tokens ? SpecialNames::tokens : SpecialNames::text;
}

/// Texts as the inputs of a model: the ids, the mask and the token types, all i64 [texts, width].
/// Without `truncate` a text of more than max_length tokens is whole, or cannot be padded.
nb::dict encode_batch(const Tokenizer& tokenizer, const Strings& texts,
                      const std::optional<Strings>& pairs, std::optional<std::int64_t> max_length,
                      bool truncate, bool pad_to_max_length, bool parse_special_tokens) {
  std::optional<Unlocked> unlocked(std::in_place);
  const SpecialNames names = names_of(parse_special_tokens);
  if (pairs) require_pairs(tokenizer);
  const std::int64_t around = std::ssize((pairs ? tokenizer.wrap({}, {}) : tokenizer.wrap({})).ids);
  truncate = truncate && max_length;
  require_input(!(truncate || pad_to_max_length) || max_length.value_or(around) >= around,
                "max_length {}; the special tokens alone are {}", max_length.value_or(0), around);
  std::vector<WrappedIds> rows;
  std::int64_t width = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    check_interruption();
    std::vector<std::int32_t> first = tokenizer.encode(texts[i], names), second;
    if (pairs) second = tokenizer.encode((*pairs)[i], names);
    if (truncate) {
      const auto [kept_first, kept_second] =
          longest_first(std::ssize(first), std::ssize(second), *max_length - around);
      first.resize(static_cast<std::size_t>(kept_first));
      second.resize(static_cast<std::size_t>(kept_second));
    }
    rows.push_back(pairs ? tokenizer.wrap(first, second) : tokenizer.wrap(first));
    width = std::max(width, std::ssize(rows.back().ids));
  }
  if (pad_to_max_length) {
    const std::int64_t wanted = max_length.value_or(width);
    require_input(width <= wanted,
                  "a text has {} tokens, more than max_length {}, and truncation is False", width,
                  wanted);
    width = wanted;
  }
  constexpr std::int64_t most = std::int64_t{1} << 32;
  require_input(width <= most / std::max<std::int64_t>(std::ssize(rows), 1),
                "max_length {}: {} texts of as many ids are more than memory holds; choose a "
                "smaller one, or padding='longest'",
                width, std::ssize(rows));
  const std::int32_t pad = tokenizer.special().pad;
  const bool even = std::ranges::all_of(
      rows, [&](const WrappedIds& row) { return std::ssize(row.ids) == width; });
  require_input(pad != no_id || even,
                "the tokenizer has no padding token, and the texts are not equally long; encode "
                "them one by one");
  const Shape shape{std::ssize(rows), width};
  Tensor ids = Tensor::zeros(shape, DType::i64), mask = Tensor::zeros(shape, DType::i64),
         types = Tensor::zeros(shape, DType::i64);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto begin = static_cast<std::int64_t>(row) * width;
    std::int64_t* const its_ids = ids.data<std::int64_t>() + begin;
    std::fill_n(its_ids, width, pad == no_id ? 0 : pad);
    std::ranges::copy(rows[row].ids, its_ids);
    std::fill_n(mask.data<std::int64_t>() + begin, rows[row].ids.size(), 1);
    std::ranges::copy(rows[row].type_ids, types.data<std::int64_t>() + begin);
  }
  unlocked.reset();
  nb::dict result;
  result["input_ids"] = array_of(ids);
  result["attention_mask"] = array_of(mask);
  result["token_type_ids"] = array_of(types);
  return result;
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Encoding>(module, "Encoding", doc::Encoding)
      .def_ro("ids", &Encoding::ids, "The id of each token.")
      .def_ro("type_ids", &Encoding::type_ids, doc::WrappedIds_type_ids)
      .def_ro("offsets", &Encoding::offsets, doc::Encoding_offsets)
      .def("__len__", [](const Encoding& encoding) { return encoding.ids.size(); });
  nb::class_<Tokenizer>(module, "Tokenizer", "Converts between text and the ids of tokens.")
      .def(
          "encode",
          [](const Tokenizer& tokenizer, const std::string& text, bool add_special_tokens,
             bool parse_special_tokens) {
            return encode_with_places(tokenizer, text, add_special_tokens,
                                      names_of(parse_special_tokens));
          },
          "text"_a, "add_special_tokens"_a = true, "parse_special_tokens"_a = false,
          doc::encode_with_places, ReleaseLock())
      .def("encode_batch", &encode_batch, "texts"_a, "pairs"_a, "max_length"_a, "truncate"_a,
           "pad_to_max_length"_a, "parse_special_tokens"_a,
           nb::sig("def encode_batch(self, texts: list[str], pairs: list[str] | None, max_length: "
                   "int | None, truncate: bool, pad_to_max_length: bool, parse_special_tokens: "
                   "bool) -> dict[str, numpy.ndarray]"))
      .def(
          "decode",
          [](const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
             bool skip_special_tokens) { return tokenizer.decode(ids, skip_special_tokens); },
          "ids"_a, "skip_special_tokens"_a = true, doc::Tokenizer_decode, ReleaseLock())
      .def(
          "id_to_token",
          [](const Tokenizer& tokenizer, std::int32_t id) {
            const std::string& piece = tokenizer.piece(id);
            require_input(!piece.empty() || tokenizer.find(piece) == id,
                          "id {}: the vocabulary has no token of it", id);
            return piece;
          },
          "id"_a, doc::Tokenizer_piece)
      .def(
          "token_to_id",
          [](const Tokenizer& tokenizer, const std::string& token) {
            return tokenizer.find(token);
          },
          "token"_a, doc::Tokenizer_find)
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size, doc::Tokenizer_vocab_size)
      .def("__len__", &Tokenizer::vocab_size);
  module.def(
      "open_tokenizer",
      [](const std::string& path) -> std::shared_ptr<const Tokenizer> {
        const Unlocked unlocked;
        return open_tokenizer(find_tokenizer(path));
      },
      "path"_a);
}

}  // namespace nystrom::python
