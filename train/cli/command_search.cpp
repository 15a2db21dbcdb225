// nystrom search: print the nearest texts of a corpus for each query.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/base/printable.h"
#include "core/check.h"
#include "data/text/table_reader.h"
#include "train/cli/commands.h"
#include "train/cli/embedding_settings.h"
#include "train/cli/text_arguments.h"
#include "train/objectives/retrieval.h"
#include "train/objectives/text_embedder.h"
#include "train/objectives/vector_file.h"

namespace nystrom {
namespace {

constexpr std::int64_t rows_at_once = 4096;
constexpr std::size_t shown_bytes = 100;  // of a neighbour

struct SearchOptions {
  CommonOptions common;
  EmbeddingFlags flags;
  std::string model, corpus, texts;
  DType dtype = DType::f32;
  TextArguments queries;
  std::int64_t top_k = 5;
  bool document = false;

  bool has_vectors() const { return holds_vectors(corpus); }
};

/// Reads a corpus or its texts. Returns the notes of read_examples.
std::vector<std::string> read_corpus_texts(const SearchOptions& options, const VectorModel& model,
                                           const std::string& file, const ExampleUse& use) {
  const TextArguments arguments{{file}, false, options.document};
  require_input(is_path(arguments, file), "{}: no such file or folder", printable_path(file));
  return read_arguments(arguments, options.common.overrides, model.task, use);
}

/// Calls use(vectors) for blocks of the corpus. Returns a checksum of its texts; empty for vectors.
template <class Use>
std::string for_each_block(const SearchOptions& options, const VectorModel& model, Log& log,
                           const Use& use) {
  if (options.has_vectors()) {
    read_vectors(options.corpus, rows_at_once, [&](const VectorBlock& block) {
      require_input(
          options.texts.empty() || block.examples.empty() || block.examples[0].text.empty(),
          "--texts: {} holds the texts of its vectors; leave it out",
          printable_path(options.corpus));
      use(block.vectors);
    });
    return "";
  }
  TextEmbedder embedder = model.embedder(options.flags, PromptKind::document);
  TextBlocks blocks(embedder,
                    [&](const std::vector<Example>&, const Tensor& vectors) { use(vectors); });
  Checksum checksum;
  read_corpus_texts(options, model, options.corpus, [&](Example&& example) {
    add_example(checksum, example);
    blocks.add(std::move(example));
  });
  blocks.finish();
  say_note(embedder, log);
  return checksum.hex();
}

/// What was read of a corpus: its rows, and the checksum of their texts; empty for vectors.
struct CorpusSize {
  std::int64_t rows = 0;
  std::string checksum;
};

/// The examples of these rows of the corpus; none where only vectors are known.
std::map<std::int64_t, Example> read_rows(const SearchOptions& options, const VectorModel& model,
                                          const std::set<std::int64_t>& rows, const CorpusSize& all,
                                          Log& log) {
  std::map<std::int64_t, Example> found;
  std::int64_t row = 0;
  Checksum checksum;
  const auto take = [&](Example&& example) {
    add_example(checksum, example);
    if (rows.contains(row)) found.emplace(row, std::move(example));
    ++row;
  };
  if (options.texts.empty() && options.has_vectors()) {
    if (table_format_of(options.corpus))  // JSON Lines
      read_vectors(options.corpus, rows_at_once, [&](VectorBlock&& block) {
        for (Example& example : block.examples) take(std::move(example));
      });
    return found;
  }
  const std::string& file = options.texts.empty() ? options.corpus : options.texts;
  for (const std::string& note : read_corpus_texts(options, model, file, take)) log.warn(note);
  require_input(all.checksum.empty() || checksum.hex() == all.checksum,
                "{}: the file changed while being read; search again once it stays",
                printable_path(file));
  require_input(row == all.rows, "{}: has {} texts, and {} has {} vectors", printable_path(file),
                row, printable_path(options.corpus), all.rows);
  return found;
}

void print_json(const Example& query, const std::vector<Neighbour>& neighbours,
                const std::map<std::int64_t, Example>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Neighbour& neighbour : neighbours) {
    nlohmann::ordered_json object = {{"row", neighbour.key}, {"score", neighbour.score}};
    if (const auto found = rows.find(neighbour.key); found != rows.end()) {
      const bool whole_file = found->second.whole_file;
      if (whole_file || found->second.named)
        object[whole_file ? "document" : "id"] = found->second.id;
      // Of a file of vectors an empty text is an unknown one.
      if (!whole_file && (found->second.file || !found->second.text.empty()))
        object["text"] = found->second.text;
    }
    list.push_back(std::move(object));
  }
  nlohmann::ordered_json line;
  if (query.named) line["id"] = query.id;
  line["query"] = query.text;
  line["neighbours"] = std::move(list);
  fmt::print("{}\n", line.dump());
}

/// A row of the corpus for people: by its text and id, else by its number.
std::string shown_row(std::int64_t row, const Example& example) {
  if (example.id.empty() && example.text.empty()) return fmt::format("row {}", row);
  if (example.id.empty()) return printable(example.text, shown_bytes);
  if (example.text.empty() || example.whole_file) return printable(example.id, shown_bytes);
  return printable(example.id + ": " + example.text, shown_bytes);
}

void print(const Example& query, const std::vector<Neighbour>& neighbours,
           const std::map<std::int64_t, Example>& rows) {
  fmt::print("{}\n", shown(query.text));
  for (const Neighbour& neighbour : neighbours) {
    const auto found = rows.find(neighbour.key);
    fmt::print("  {:.4f}  {}\n", neighbour.score,
               shown_row(neighbour.key, found == rows.end() ? Example() : found->second));
  }
}

/// Divides each row of vectors [n, width] f32 by its length.
void normalise_rows(Tensor& vectors) {
  for (std::int64_t row = 0; row < vectors.dim(0); ++row) {
    const std::span<float> numbers(vectors.data<float>() + row * vectors.dim(1),
                                   static_cast<std::size_t>(vectors.dim(1)));
    double squares = 0;
    for (const float number : numbers) squares += static_cast<double>(number) * number;
    const double length = std::sqrt(squares);
    if (length > 0)
      for (float& number : numbers) number = static_cast<float>(number / length);
  }
}

void run(const SearchOptions& given, Device device, Log& log) {
  SearchOptions options = given;
  check_texts(options.queries);
  require_input(options.texts.empty() || options.has_vectors(),
                "--texts has the texts of a file of vectors, and {} is none; leave it out",
                printable_path(options.corpus));
  require_input(
      !options.document || !options.has_vectors() || !options.texts.empty(),
      "--document reads texts, and {} has vectors; leave it out, or name the texts of the "
      "vectors in --texts",
      printable_path(options.corpus));
  const VectorModel model = open_vector_model(options.model, options.common.overrides,
                                              TaskKind::classification, options.dtype, device, log);
  options.flags = model.for_ranking(options.flags);
  TextEmbedder embedder = model.embedder(options.flags, PromptKind::query);
  std::vector<Example> queries;
  std::vector<std::string> texts;
  const auto add = [&](Example&& query) {
    require_input(!is_blank(query.text), "{}: the query is blank; leave it out", query.place());
    texts.push_back(query.text);
    queries.push_back(std::move(query));
  };
  for (const std::string& note :
       read_arguments(options.queries, options.common.overrides, model.task, add))
    log.warn(note);
  NearestNeighbours nearest(embed_all(embedder, texts), options.top_k);
  std::int64_t rows = 0;
  say_note(embedder, log);
  const std::string checksum = for_each_block(options, model, log, [&](Tensor vectors) {
    require_input(vectors.dim(1) == embedder.width(),
                  "{}: its vectors have {} numbers, those of the queries {}; give the model and "
                  "the --dimensions that made the file",
                  printable_path(options.corpus), vectors.dim(1), embedder.width());
    if (options.has_vectors() && options.flags.normalize) normalise_rows(vectors);
    std::vector<std::int64_t> keys(static_cast<std::size_t>(vectors.dim(0)));
    std::iota(keys.begin(), keys.end(), rows);
    nearest.add(vectors, keys);
    rows += vectors.dim(0);
  });
  const auto found = nearest.sorted();
  std::set<std::int64_t> wanted;
  for (const auto& neighbours : found)
    for (const Neighbour& neighbour : neighbours) wanted.insert(neighbour.key);
  const std::map<std::int64_t, Example> examples =
      read_rows(options, model, wanted, {rows, checksum}, log);
  for (std::size_t i = 0; i < queries.size(); ++i)
    options.common.json ? print_json(queries[i], found[i], examples)
                        : print(queries[i], found[i], examples);
}

}  // namespace

Command add_search_command(CLI::App& app) {
  auto options = std::make_shared<SearchOptions>();
  auto* command =
      app.add_subcommand("search", "Print the texts of a corpus that are nearest to queries");
  command->footer(
      "The score is the cosine of two vectors, or their product where model.embedding.similarity "
      "is dot. "
      "All vectors are compared; there is no index.\n"
      "Give the options that made the file of vectors. Its rows are counted from 0.\n\n"
      "Examples:\n  nystrom search runs/mine corpus.txt \"Who built the bridge?\"\n"
      "  nystrom search runs/mine corpus.npy questions.txt --texts corpus.txt --top-k 10 --json");
  add_model_to(*command, options->model);
  command
      ->add_option("CORPUS", options->corpus,
                   "vectors of nystrom embed (.npy, .safetensors, .jsonl), or texts, which are "
                   "embedded at each call")
      ->required();
  command->add_option("QUERY", options->queries.texts, "texts, or files of texts")->required();
  add_number(*command, "--top-k", options->top_k, "neighbours of each query", 1, 1 << 24);
  command->add_option("--texts", options->texts,
                      "the texts of CORPUS, where it is .npy or .safetensors");
  options->flags.add_to(*command);
  add_choice(*command, "--dtype", options->dtype, inference_dtype_help, dtype_names);
  command->add_flag("--as-text", options->queries.as_text,
                    "treat each QUERY as text, even one that names a file");
  command->add_flag("--document", options->document,
                    "read each file of CORPUS, or of --texts, as one text");
  options->common.add_to(*command, {.json = "one JSON line a query"});
  return alone(command, options, run);
}

}  // namespace nystrom
