// The decoders of a tokenizer.json: how pieces become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace nystrom {

class JsonPart;

/// Const members are safe to use from several threads.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes pieces into parts of the text, which is all of them joined.
  virtual void apply(std::vector<std::string>& parts) const = 0;
};

/// The decoder that a part of a tokenizer.json describes. InputError that names a type which is not
/// known.
std::unique_ptr<Decoder> read_decoder(const JsonPart& part);

/// BERT's: a space before each piece without `prefix`; with `cleanup` none before signs.
std::unique_ptr<Decoder> wordpiece_decoder(const std::string& prefix, bool cleanup);
/// Takes out the spaces that a tokenizer put before punctuation and into contractions.
std::string clean_up_spaces(std::string text);
/// Bytes by their characters become bytes; what is no UTF-8 then becomes U+FFFD.
std::unique_ptr<Decoder> byte_level_decoder();

}  // namespace nystrom
