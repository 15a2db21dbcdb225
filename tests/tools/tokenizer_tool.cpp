// The tokenizer as a command line tool, for tests/reference/check_tokenizer.py and measurements.
// Special names in text are read as tokens with `tokens`, and as text with `text`.
//   tokenizer_tool train unigram|bpe VOCAB_SIZE FOLDER lower|cased|stripped FILE…   trains one
//   tokenizer_tool export PLACE FOLDER                   writes the files of an export
//   tokenizer_tool encode FOLDER text|tokens < TEXT      a line of ids for each line
//   tokenizer_tool offsets FOLDER text|tokens < TEXT     a line of id:begin:end in bytes for each
// line
//   tokenizer_tool json FOLDER < JSON                    a list of [id, begin, end] for each text
// in
//                                                        JSON, or the message of an error
//   tokenizer_tool decode FOLDER keep|skip < IDS         a JSON text for each line of ids; special
//                                                        tokens are kept or skipped
//   tokenizer_tool wrap FOLDER < JSON                    a line of id:type for each list of one or
//                                                        two texts
//   tokenizer_tool time FOLDER FILE…                     encodes documents and prints the speed
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "data/text/match_files.h"
#include "data/tokenizers/sentencepiece_train.h"
#include "data/tokenizers/tokenizer_folder.h"

namespace nystrom {
namespace {

using Arguments = std::vector<std::string>;

TextReader reader_of(const Arguments& arguments, std::size_t first) {
  return {match_files(std::span(arguments).subspan(first)), Documents::files};
}

void train(const Arguments& arguments) {
  SentencePieceTraining options;
  options.kind =
      arguments.at(1) == "bpe" ? SentencePieceModel::Kind::bpe : SentencePieceModel::Kind::unigram;
  options.vocab_size = std::stoll(arguments.at(2));
  options.normalizer = {arguments.at(4) != "cased", arguments.at(4) == "stripped"};
  TextReader text = reader_of(arguments, 5);
  const auto trained = train_sentencepiece(text, options);
  write_tokenizer(*trained.tokenizer, arguments.at(3), 512);
  fmt::print("{}; trained on {} of {} bytes\n", text.statistics().summary(), trained.taken_bytes,
             trained.read_bytes);
}

/// Calls answer(line, out) for each line of the input and prints `out` as a line.
template <class Answer>
void for_each_line(const Answer& answer) {
  std::string out;
  for (std::string line; std::getline(std::cin, line);) {
    answer(line, out);
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
    out.clear();
  }
}

SpecialNames names_of(const std::string& word) {
  return word == "tokens" ? SpecialNames::tokens : SpecialNames::text;
}

void encode(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  for_each_line([&](const std::string& line, std::string& out) {
    for (const std::int32_t id : tokenizer->encode(line, names_of(arguments.at(2))))
      out += std::to_string(id) += ' ';
  });
}

void encode_with_offsets(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  for_each_line([&](const std::string& line, std::string& out) {
    for (const auto& [id, begin, end, word] :
         tokenizer->encode_with_offsets(line, names_of(arguments.at(2))))
      out += fmt::format("{}:{}:{} ", id, begin, end);
  });
}

void encode_json(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  for_each_line([&](const std::string& line, std::string& out) {
    nlohmann::json result = nlohmann::json::array();
    try {
      const auto text = nlohmann::json::parse(line).get<std::string>();
      for (const auto& [id, begin, end, word] :
           tokenizer->encode_with_offsets(text, SpecialNames::tokens))
        result.push_back({id, begin, end});
    } catch (const InputError& error) {
      result = error.what();
    }
    out += result.dump();
  });
}

void decode(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  for_each_line([&](const std::string& line, std::string& out) {
    std::istringstream numbers(line);
    std::vector<std::int32_t> ids;
    for (std::int32_t id; numbers >> id;) ids.push_back(id);
    out += nlohmann::json(tokenizer->decode(ids, arguments.at(2) == "skip")).dump();
  });
}

/// Encodes a text or a pair with special tokens. Texts are JSON because they may have several
/// lines.
void wrap(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  for_each_line([&](const std::string& line, std::string& out) {
    std::vector<std::vector<std::int32_t>> texts;
    for (const auto& text : nlohmann::json::parse(line))
      texts.push_back(tokenizer->encode(text.get<std::string>(), SpecialNames::tokens));
    const WrappedIds wrapped = texts.size() == 1 ? tokenizer->wrap(texts.at(0))
                                                 : tokenizer->wrap(texts.at(0), texts.at(1));
    for (std::size_t i = 0; i < wrapped.ids.size(); ++i)
      out += fmt::format("{}:{} ", wrapped.ids[i], wrapped.type_ids[i]);
  });
}

void time_encoding(const Arguments& arguments) {
  const auto tokenizer = open_tokenizer(arguments.at(1));
  TextReader text = reader_of(arguments, 2);
  const auto start = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  while (const auto piece = text.next()) tokens += tokenizer->encode(piece->text).size();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}; {} tokens, {:.2f} s, {:.1f} MB/s\n", text.statistics().summary(), tokens, seconds,
             static_cast<double>(text.statistics().bytes) / 1e6 / seconds);
}

void run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  if (command == "train") return train(arguments);
  if (command == "export")
    return write_tokenizer(*open_tokenizer(arguments.at(1)), arguments.at(2), 512);
  if (command == "encode") return encode(arguments);
  if (command == "offsets") return encode_with_offsets(arguments);
  if (command == "json") return encode_json(arguments);
  if (command == "decode") return decode(arguments);
  if (command == "wrap") return wrap(arguments);
  if (command == "time") return time_encoding(arguments);
  throw InputError("unknown command '" + command + "'");
}

}  // namespace
}  // namespace nystrom

int main(int count, char** arguments) {
  try {
    nystrom::run({arguments + 1, arguments + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
