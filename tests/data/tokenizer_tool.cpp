// The tokenizer on the command line, for tests/reference/check_tokenizer.py and for measuring.
//   tokenizer_tool train unigram|bpe VOCAB_SIZE MODEL lower|cased FILE…   trains
//   tokenizer_tool export MODEL lower|cased FOLDER                        writes the Hugging Face form
//   tokenizer_tool encode FOLDER text|tokens < TEXT                       a line of ids for each line; special names as tokens or text
//   tokenizer_tool time FOLDER FILE…                                      reads documents, encodes them, prints figures
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "core/check.h"
#include "data/sentencepiece_train.h"
#include "data/tokenizer_json.h"

namespace nystrom {
namespace {

using Arguments = std::vector<std::string>;

NormalizerOptions normalizer_of(const std::string& name) {
  const bool lower = name == "lower";
  return {lower, !lower};
}

TextReader reader_of(const Arguments& arguments, std::size_t first) {
  return {match_files(std::span(arguments).subspan(first)), Documents::files};
}

void train(const Arguments& arguments) {
  SentencePieceTraining options;
  options.kind = arguments.at(1) == "bpe" ? SentencePieceModel::Kind::bpe : SentencePieceModel::Kind::unigram;
  options.vocab_size = std::stoll(arguments.at(2));
  options.normalizer = normalizer_of(arguments.at(4));
  TextReader text = reader_of(arguments, 5);
  const auto trained = train_sentencepiece(text, options, arguments.at(3));
  fmt::print("{}; trained on {} of {} bytes\n", text.statistics().summary(), trained.taken_bytes, trained.read_bytes);
}

void encode(const Arguments& arguments) {
  const auto tokenizer = SentencePieceTokenizer::open_folder(arguments.at(1));
  const auto names = arguments.at(2) == "tokens" ? SpecialNames::tokens : SpecialNames::text;
  std::string out;
  for (std::string line; std::getline(std::cin, line);) {
    for (const std::int32_t id : tokenizer.encode(line, names)) out += std::to_string(id) += ' ';
    out += '\n';
    std::fwrite(out.data(), 1, out.size(), stdout);
    out.clear();
  }
}

void time_encoding(const Arguments& arguments) {
  const auto tokenizer = SentencePieceTokenizer::open_folder(arguments.at(1));
  TextReader text = reader_of(arguments, 2);
  const auto start = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  while (const auto piece = text.next()) tokens += tokenizer.encode(piece->text).size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}; {} tokens, {:.2f} s, {:.1f} MB/s\n", text.statistics().summary(), tokens, seconds,
             static_cast<double>(text.statistics().bytes) / 1e6 / seconds);
}

void run(const Arguments& arguments) {
  const std::string& command = arguments.at(0);
  if (command == "train") return train(arguments);
  if (command == "export")
    return write_tokenizer(SentencePieceTokenizer::open(arguments.at(1), normalizer_of(arguments.at(2))), arguments.at(3), 512);
  if (command == "encode") return encode(arguments);
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
