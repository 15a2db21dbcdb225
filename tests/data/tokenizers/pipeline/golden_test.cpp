// Tokenizers of every kind give the results of Hugging Face's library: the bundled small ones,
// BERT's and ALBERT's.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include <nlohmann/json.hpp>

#include "core/base/json.h"
#include "data/tokenizers/pipeline/tokenizer_files.h"
#include "data/tokenizers/tokenizer_folder.h"
#include "tests/support/fixtures.h"
#include "tests/support/temporary_folder.h"  // before nystrom::testing is opened

namespace nystrom {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

const std::filesystem::path folder = testing::fixture_folder() / "tokenizers";

void expect_tokens(const Tokenizer& tokenizer, const std::string& text, SpecialNames names,
                   const Json& expected) {
  Json ids = Json::array(), offsets = Json::array();
  for (const auto& [id, begin, end, word] : tokenizer.encode_with_offsets(text, names)) {
    ids.push_back(id);
    offsets.push_back({begin, end});
  }
  EXPECT_EQ(ids, expected["ids"]) << text;
  EXPECT_EQ(offsets, expected["offsets"]) << text;
  EXPECT_EQ(tokenizer.encode(text, names), expected["ids"].get<Ids>()) << text;
}

void expect_wrapped(const WrappedIds& wrapped, const Json& expected) {
  EXPECT_EQ(wrapped.ids, expected[0].get<Ids>());
  EXPECT_EQ(wrapped.type_ids, expected[1].get<Ids>());
}

/// Expects cls and sep around texts, as in pretraining.
void expect_made_template(const Tokenizer& tokenizer, const Ids& first, const Ids& second) {
  Ids ids{tokenizer.special().cls};
  ids.insert(ids.end(), first.begin(), first.end());
  ids.push_back(tokenizer.special().sep);
  EXPECT_EQ(tokenizer.wrap(first).ids, ids);
  ids.insert(ids.end(), second.begin(), second.end());
  ids.push_back(tokenizer.special().sep);
  EXPECT_EQ(tokenizer.wrap(first, second).ids, ids);
}

/// Whether the id is cls, sep, pad or mask.
bool is_control(const Tokenizer& tokenizer, std::int32_t id) {
  return tokenizer.is_special(id) && id != tokenizer.special().unk;
}

/// Compares the results of a tokenizer with expected.json.
void expect_all(const Tokenizer& tokenizer, const std::filesystem::path& file) {
  for (const Json& each : read_json_file(file)) {
    const auto text = each["text"].get<std::string>(), second = each["second"].get<std::string>();
    SCOPED_TRACE(text);
    expect_tokens(tokenizer, text, SpecialNames::tokens, each["tokens"]);
    // Hugging Face's unigram models find the pieces of special tokens in text. Here text never
    // becomes one.
    const auto as_text = each["as_text"]["ids"].get<Ids>();
    if (std::ranges::none_of(as_text, [&](std::int32_t id) { return is_control(tokenizer, id); }))
      expect_tokens(tokenizer, text, SpecialNames::text, each["as_text"]);
    for (const std::int32_t id : tokenizer.encode(text))
      EXPECT_FALSE(is_control(tokenizer, id)) << id;
    const Ids ids = tokenizer.encode(text, SpecialNames::tokens),
              more = tokenizer.encode(second, SpecialNames::tokens);
    EXPECT_EQ(tokenizer.decode(each["single"][0].get<Ids>()), each["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(each["single"][0].get<Ids>(), false),
              each["decoded_with_special"].get<std::string>());
    if (each["single"][0].get<Ids>() == ids) {  // Hugging Face's template is empty
      expect_made_template(tokenizer, ids, more);
      continue;
    }
    expect_wrapped(tokenizer.wrap(ids), each["single"]);
    expect_wrapped(tokenizer.wrap(ids, more), each["pair"]);
  }
}

class SmallTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallTokenizer, AsHuggingFaces) {
  const auto place = folder / "small" / GetParam();
  expect_all(*open_tokenizer(place), place / "expected.json");
}

INSTANTIATE_TEST_SUITE_P(Kinds, SmallTokenizer,
                         ::testing::Values("wordpiece", "byte_level", "unigram",
                                           "bytes_for_unknown", "split_by_regex", "suffixes",
                                           "first_metaspace", "xlm_roberta", "camembert"),
                         [](const auto& each) { return each.param; });

TEST(BertVocabulary, AsTheTokenizerJson) {
  expect_all(*open_tokenizer(folder / "small/wordpiece/vocab.txt"),
             folder / "small/wordpiece/expected.json");
}

TEST(RobertaVocabulary, AsTheTokenizerJson) {
  expect_all(*open_tokenizer(folder / "small/byte_level/merges.txt"),
             folder / "small/byte_level/expected.json");
}

/// Compares with golden_encodings.json of a folder.
void expect_golden(const Tokenizer& tokenizer, const char* place,
                   const std::function<std::string(std::string)>& as_decoded) {
  const Json golden = read_json_file(folder / place / "golden_encodings.json");
  EXPECT_EQ(tokenizer.vocab_size(), golden["vocab_size"]);
  ASSERT_EQ(golden["cases"].size(), 16u);
  for (const Json& each : golden["cases"]) {
    const auto text = each["text"].get<std::string>();
    const auto ids = each["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.wrap(tokenizer.encode(text, SpecialNames::tokens)).ids, ids) << text;
    EXPECT_EQ(as_decoded(tokenizer.decode(ids)), each["decoded"].get<std::string>());
  }
  const Json& pair = golden["pair"];
  expect_wrapped(tokenizer.wrap(tokenizer.encode(pair["a"].get<std::string>()),
                                tokenizer.encode(pair["b"].get<std::string>())),
                 {pair["ids"], pair["type_ids"]});
}

TEST(BertVocabulary, GoldenEncodings) {
  const TemporaryFolder with_config;
  std::filesystem::copy_file(folder / "bert-base-uncased/vocab.txt", with_config / "vocab.txt");
  write_bytes(with_config / "tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})");
  expect_golden(*open_tokenizer(with_config.path()), "bert-base-uncased", std::identity());
}

/// The golden texts come from the slow class, which strips decoded text. The fast class does not.
std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

TEST(SentencePieceTokenizer, GoldenEncodings) {
  expect_golden(*open_tokenizer(folder / "albert/spiece.model"), "albert", trimmed);
}

}  // namespace
}  // namespace nystrom
