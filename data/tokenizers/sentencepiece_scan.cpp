#include "data/tokenizers/sentencepiece_scan.h"

#include <bit>
#include <cmath>
#include <unordered_set>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "data/tokenizers/protobuf_reader.h"

// Field numbers and defaults follow sentencepiece_model.proto of SentencePiece 0.1.97.

namespace nystrom {
namespace {

/// Whether a space, or the mark that stands for one, follows another character. Words are encoded
/// separately, so such a piece would never match.
bool crosses_words(std::string_view piece) {
  constexpr std::string_view mark = "\xE2\x96\x81";
  while (piece.starts_with(mark)) piece.remove_prefix(mark.size());
  return piece.find(mark) != piece.npos || piece.find(' ') != piece.npos;
}

class Scanner {
 public:
  Scanner(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  SentencePieceModel run() {
    require_input(!bytes_.empty(), "{}: the file is empty; expected a SentencePiece model",
                  source_);
    bool trainer_seen = false, normalizer_seen = false;
    for_each_field(bytes_, 0, source_, [&](const WireField& field) {
      switch (field.number) {
        case 1: scan_piece(expect(field, WireType::bytes, "pieces")); break;
        case 2: scan_trainer(once(field, WireType::bytes, "trainer_spec", trainer_seen)); break;
        case 3:
          scan_normalizer(once(field, WireType::bytes, "normalizer_spec", normalizer_seen));
          break;
        case 5: scan_denormalizer(expect(field, WireType::bytes, "denormalizer_spec")); break;
        default: break;
      }
    });
    check_whole();
    return std::move(model_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const WireField& field, fmt::format_string<Args...> message,
                         Args&&... args) const {
    throw InputError(fmt::format("{}: byte {}: ", source_, field.offset) +
                     fmt::format(message, std::forward<Args>(args)...));
  }

  const WireField& expect(const WireField& field, WireType type, const char* name) const {
    if (field.type != type)
      fail(field, "{} has wire type {}, expected {}", name, static_cast<int>(field.type),
           static_cast<int>(type));
    return field;
  }

  /// expect() of a field that may appear once.
  const WireField& once(const WireField& field, WireType type, const char* name, bool& seen) const {
    expect(field, type, name);
    if (seen) fail(field, "{} appears twice", name);
    seen = true;
    return field;
  }

  bool flag(const WireField& field, const char* name) const {
    return expect(field, WireType::varint, name).value != 0;
  }

  void scan_piece(const WireField& message) {
    const std::size_t id = model_.pieces.size();
    SentencePiece piece;
    bool text_seen = false, score_seen = false, type_seen = false;
    for_each_field(message.bytes, message.offset, source_, [&](const WireField& field) {
      if (field.number == 1) {
        piece.text = once(field, WireType::bytes, "piece", text_seen).bytes;
        check_text(field, piece.text, id);
      } else if (field.number == 2) {
        once(field, WireType::fixed32, "score", score_seen);
        piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
        if (!std::isfinite(piece.score)) fail(field, "the score of piece {} is not finite", id);
      } else if (field.number == 3) {
        piece.type = type_of(once(field, WireType::varint, "type", type_seen), id);
      }
    });
    if (!text_seen) fail(message, "piece {} has no text", id);
    // SentencePiece's BPE would use it for the control token, and then miss it in the text.
    if (piece.type == SentencePiece::Type::control &&
        piece.text.size() == utf8_length(piece.text[0]))
      fail(message, "piece {} is a control piece of one character, '{}', which text may hold", id,
           printable(piece.text));
    const bool taken_from_text = piece.type == SentencePiece::Type::normal ||
                                 piece.type == SentencePiece::Type::user_defined;
    if (taken_from_text && crosses_words(piece.text))
      fail(message,
           "piece {} is of several words, '{}'; only models that are trained with "
           "split_by_whitespace are supported",
           id, printable(piece.text));
    unknown_ += piece.type == SentencePiece::Type::unknown;
    normal_ += piece.type == SentencePiece::Type::normal;
    model_.pieces.push_back(std::move(piece));
  }

  void check_text(const WireField& field, const std::string& text, std::size_t id) {
    if (text.empty() || text.size() > max_piece_bytes)
      fail(field, "piece {} has {} bytes, expected 1 to {}", id, text.size(), max_piece_bytes);
    if (!is_valid_utf8(text)) fail(field, "piece {} is not valid UTF-8: '{}'", id, printable(text));
    if (text.find('\0') != text.npos) fail(field, "piece {} holds a NUL byte", id);
    if (!texts_.insert(field.bytes).second)
      fail(field, "piece {} appears twice: '{}'", id, printable(text));
  }

  SentencePiece::Type type_of(const WireField& field, std::size_t id) const {
    constexpr std::uint64_t byte_type = 6;
    if (field.value == byte_type)
      fail(field, "piece {} is a byte; models with byte fallback are not supported", id);
    if (field.value < 1 || field.value > byte_type)
      fail(field, "piece {} has type {}, expected 1 to 5", id, field.value);
    return static_cast<SentencePiece::Type>(field.value);
  }

  void scan_trainer(const WireField& message) {
    for_each_field(message.bytes, message.offset, source_, [&](const WireField& field) {
      if (field.number == 3) {
        expect(field, WireType::varint, "model_type");
        if (field.value != 1 && field.value != 2)
          fail(field, "model_type {} is not supported; expected 1 (unigram) or 2 (BPE)",
               field.value);
        model_.kind = static_cast<SentencePieceModel::Kind>(field.value);
      } else if (field.number == 24 && flag(field, "treat_whitespace_as_suffix")) {
        fail(field, "treat_whitespace_as_suffix is not supported; words must be marked in front");
      } else if (field.number == 35 && flag(field, "byte_fallback")) {
        fail(field, "byte_fallback is not supported");
      }
    });
  }

  void scan_normalizer(const WireField& message) {
    bool charsmap_seen = false;
    for_each_field(message.bytes, message.offset, source_, [&](const WireField& field) {
      if (field.number == 2) {
        model_.charsmap = once(field, WireType::bytes, "precompiled_charsmap", charsmap_seen).bytes;
        check_charsmap(field.bytes, fmt::format("{}: byte {}", source_, field.offset));
      } else if (field.number == 3 && !flag(field, "add_dummy_prefix")) {
        fail(field,
             "add_dummy_prefix is off; only models that mark the first word too are supported");
      } else if (field.number == 4 && !flag(field, "remove_extra_whitespaces")) {
        fail(field, "remove_extra_whitespaces is off; only models that join spaces are supported");
      } else if (field.number == 5 && !flag(field, "escape_whitespaces")) {
        fail(field,
             "escape_whitespaces is off; only models that write a space as U+2581 are supported");
      }
    });
  }

  void scan_denormalizer(const WireField& message) const {
    for_each_field(message.bytes, message.offset, source_, [&](const WireField& field) {
      if (field.number == 2 &&
          !expect(field, WireType::bytes, "precompiled_charsmap").bytes.empty())
        fail(field, "rules for changing decoded text are not supported");
    });
  }

  void check_whole() const {
    require_input(unknown_ == 1, "{}: {} pieces are of type unknown, expected exactly 1", source_,
                  unknown_);
    require_input(normal_ > 0, "{}: none of the {} pieces is a normal one; the vocabulary is empty",
                  source_, model_.pieces.size());
  }

  std::string_view bytes_;
  const std::string& source_;
  SentencePieceModel model_;
  std::unordered_set<std::string_view> texts_;
  std::int64_t unknown_ = 0, normal_ = 0;
};

}  // namespace

SentencePieceModel scan_sentencepiece(std::string_view bytes, const std::string& source) {
  return Scanner(bytes, source).run();
}

}  // namespace nystrom
