#include "train/objectives/retrieval.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "autograd/ops.h"
#include "core/base/checksum.h"
#include "core/base/file_io.h"
#include "core/base/printable.h"
#include "core/base/words.h"
#include "core/check.h"
#include "data/tasks/task_metrics.h"
#include "data/tasks/word_cut.h"
#include "data/text/table_reader.h"
#include "train/objectives/text_embedder.h"
#include "train/objectives/vector_evaluation.h"

namespace nystrom {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t ranking_depth = 100;  // documents

void require_file(const fs::path& file, const fs::path& folder) {
  require_input(fs::is_regular_file(file),
                "{}: no such file; {} is no folder of BEIR's form: queries.jsonl, corpus.jsonl and "
                "qrels/*.tsv",
                printable_path(file), printable_path(folder));
}

/// The file of a folder with this name, or the compressed one.
fs::path text_file(const fs::path& folder, const std::string& name) {
  for (const char* ending : {".gz", ".zst"})
    if (const fs::path file = folder / (name + ending);
        !fs::exists(folder / name) && fs::is_regular_file(file))
      return file;
  require_file(folder / name, folder);
  return folder / name;
}

fs::path judgements_of(const fs::path& folder, const std::optional<std::string>& split) {
  const fs::path qrels = folder / "qrels";
  std::set<std::string> names;
  if (fs::is_directory(qrels))
    for (const auto& entry : fs::directory_iterator(qrels))
      if (entry.path().extension() == ".tsv") names.insert(entry.path().stem().string());
  if (names.empty()) require_file(qrels / "test.tsv", folder);
  const std::string name = split ? *split : names.size() > 1 ? "test" : *names.begin();
  require_input(names.contains(name), "{}: holds {}, and no {}.tsv; choose one by --split",
                printable_path(qrels), printable(fmt::format("{}", fmt::join(names, ", "))),
                printable(name, 60));
  return qrels / (name + ".tsv");
}

/// The judgements of a file, by query and document.
std::map<std::string, std::map<std::string, std::int64_t>> read_judgements(const fs::path& file) {
  const auto reader =
      open_rows(file, TableFormat::tsv, true, {{"query-id"}, {"corpus-id"}, {"score"}});
  std::map<std::string, std::map<std::string, std::int64_t>> judged;
  while (const auto row = reader->next()) {
    const std::string &query = *row->cells[0], &document = *row->cells[1], &score = *row->cells[2];
    const auto value = number_of<std::int64_t>(score);
    require_input(value.has_value(), "{}: the score '{}' is no whole number",
                  row->place(printable_path(file)), printable(score, 40));
    require_input(judged[query].emplace(document, *value).second,
                  "{}: document '{}' is judged twice for query '{}'",
                  row->place(printable_path(file)), printable(document, 60), printable(query, 60));
  }
  require_input(!judged.empty(), "{}: there are no judgements in it", printable_path(file));
  return judged;
}

/// Reads a file of texts and calls use(row, id, text). `titled`: a title, if there is one, stands
/// before the text.
template <class Use>
void for_each_text(const fs::path& file, bool titled, const Use& use) {
  const auto reader =
      open_rows(file, TableFormat::jsonl, true, {{"_id"}, {"text"}, {"title", false}});
  while (auto row = reader->next()) {
    const std::string title = titled ? row->cells[2].value_or("") : "";
    std::string text = std::move(*row->cells[1]);
    if (!title.empty()) text = text.empty() ? title : title + " " + text;
    use(*row, *row->cells[0], std::move(text));
  }
}

/// Reads the ids of set.corpus.
void read_document_ids(RetrievalSet& set) {
  const fs::path& corpus = set.corpus;
  std::vector<std::string> ids;
  for_each_text(corpus, true, [&](const TableRow&, const std::string& id, const std::string&) {
    ids.push_back(id);
  });
  require_input(!ids.empty(), "{}: there are no documents in it", printable_path(corpus));
  const auto id_of = [&](std::size_t i) -> const std::string& { return ids[i]; };
  set.document_places.resize(ids.size());
  for (std::int64_t place = 0; const std::size_t i : indices_by(ids.size(), id_of, std::greater()))
    set.document_places[i] = place++;
  std::ranges::sort(ids, std::greater());
  const auto twice = std::ranges::adjacent_find(ids);
  require_input(twice == ids.end(), "{}: document '{}' is there twice", printable_path(corpus),
                printable(twice == ids.end() ? "" : *twice, 60));
  set.document_ids = std::move(ids);
}

/// The nearest documents of each query, as places in set.document_ids.
std::vector<std::vector<Neighbour>> rank_documents(
    TextEmbedder& embedder, const RetrievalSet& set, Tensor queries,
    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  NearestNeighbours nearest(std::move(queries), ranking_depth + 1);  // one may be the query itself
  const std::vector<std::int64_t>& places = set.document_places;
  std::size_t done = 0;
  TextBlocks blocks(embedder, [&](const std::vector<Example>& examples, const Tensor& vectors) {
    nearest.add(vectors, std::span(places).subspan(done, examples.size()));
    done += examples.size();
    if (progress) progress(static_cast<std::int64_t>(done), std::ssize(places));
  });
  std::size_t next = 0;
  for_each_text(set.corpus, true, [&](const TableRow&, const std::string& id, std::string text) {
    const bool same =
        next < places.size() && set.document_ids[static_cast<std::size_t>(places[next])] == id;
    require_input(same, "{}: the file changed while being read", printable_path(set.corpus));
    ++next;
    Example example;
    example.text = std::move(text);
    blocks.add(std::move(example));
  });
  require_input(next == places.size(), "{}: the file changed while being read",
                printable_path(set.corpus));
  blocks.finish();
  return nearest.sorted();
}

/// Notes judgements of queries that do not exist, which remain in `judged`, and of documents that
/// do not exist, and queries without a relevant document. Throws an InputError where all are such.
void check_judgements(const fs::path& file, RetrievalSet& set,
                      const std::map<std::string, std::map<std::string, std::int64_t>>& judged) {
  const std::string name = printable_path(file);
  const std::size_t all = set.judged.size() + judged.size();
  if (!judged.empty()) {
    const std::string first = printable(judged.begin()->first, 60);
    require_input(!set.judged.empty(),
                  "{}: none of its {} queries is in queries.jsonl, not even '{}'; ids must be "
                  "written alike",
                  name, all, first);
    set.notes.push_back(
        fmt::format("{}: {} of its {} queries are not in queries.jsonl and are left out; the "
                    "first: '{}'",
                    name, judged.size(), all, first));
  }
  const auto in_corpus = [&](const std::string& id) {
    return std::ranges::binary_search(set.document_ids, id, std::greater());
  };
  std::size_t documents = 0, missing = 0, without_relevant = 0;
  std::string first;
  for (std::size_t query = 0; query < set.judged.size(); ++query) {
    without_relevant += std::ranges::none_of(
        set.judged[query], [](const auto& judgement) { return judgement.second > 0; });
    documents += set.judged[query].size();
    set.queries_are_documents &= !set.judged[query].contains(set.query_ids[query]);
    for (const auto& [id, relevance] : set.judged[query]) {
      if (in_corpus(id)) continue;
      if (missing++ == 0) first = printable(id, 60);
    }
  }
  require_input(without_relevant < set.judged.size(),
                "{}: no document is relevant to a query: no score is above 0", name);
  if (without_relevant > 0)
    set.notes.push_back(fmt::format("{}: {} of {} queries have no relevant document and count as 0",
                                    name, without_relevant, set.judged.size()));
  if (set.queries_are_documents)
    if (const auto themselves = std::ranges::count_if(set.query_ids, in_corpus); themselves > 0)
      set.notes.push_back(fmt::format(
          "{} queries have the id of a document, which is left out of their ranking", themselves));
  if (missing == 0) return;
  require_input(missing < documents,
                "{}: none of its {} judged documents is in corpus.jsonl, not even '{}'; ids must "
                "be written alike",
                name, documents, first);
  set.notes.push_back(fmt::format(
      "{}: {} of its {} judged documents are not in corpus.jsonl and count as not found; the "
      "first: '{}'",
      name, missing, documents, first));
}

/// The gain of the first ten documents, discounted by rank (Järvelin & Kekäläinen, TOIS 2002).
double discounted_gain(std::span<const std::int64_t> relevances) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(10, relevances.size()); ++i)
    sum += static_cast<double>(std::max<std::int64_t>(0, relevances[i])) /
           std::log2(static_cast<double>(i + 2));
  return sum;
}

// Bounds the products that are in memory at once.
constexpr std::int64_t block_vectors = 4096, block_queries = 1024;

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.score != b.score ? a.score > b.score : a.key < b.key;
}

}  // namespace

RankingScores score_ranking(std::span<const std::int64_t> ranked,
                            std::vector<std::int64_t> judged) {
  const auto relevant =
      static_cast<double>(std::ranges::count_if(judged, [](std::int64_t r) { return r >= 1; }));
  if (relevant == 0) return {};
  std::ranges::sort(judged, std::greater());
  double found = 0, precisions = 0, reciprocal_rank = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(100, ranked.size()); ++i) {
    if (ranked[i] < 1) continue;
    const auto rank = static_cast<double>(i + 1);
    if (found == 0 && i < 10) reciprocal_rank = 1 / rank;
    precisions += ++found / rank;
  }
  return {discounted_gain(ranked) / discounted_gain(judged), reciprocal_rank, found / relevant,
          precisions / relevant};
}

RetrievalSet read_retrieval(const fs::path& folder, const std::optional<std::string>& split) {
  const fs::path file = text_file(folder, "queries.jsonl"),
                 corpus = text_file(folder, "corpus.jsonl");
  const fs::path judgements = judgements_of(folder, split);
  auto judged = read_judgements(judgements);
  RetrievalSet set;
  set.corpus = corpus;
  set.split = judgements.stem().string();
  std::set<std::string> seen;
  std::vector<std::string> blank;
  for_each_text(file, false, [&](const TableRow& row, const std::string& id, std::string text) {
    require_input(seen.insert(id).second, "{}: query '{}' is there twice",
                  row.place(printable_path(file)), printable(id, 60));
    const auto found = judged.find(id);
    if (found == judged.end()) return;
    if (is_blank(text)) blank.push_back(id);
    set.query_ids.push_back(id);
    set.queries.push_back(std::move(text));
    set.judged.push_back(std::move(found->second));
    judged.erase(found);
  });
  if (!split && set.split != "test")
    set.notes.push_back(fmt::format("{}: there is no test.tsv; {} is measured",
                                    printable_path(judgements), set.split));
  read_document_ids(set);
  check_judgements(judgements, set, judged);
  if (!blank.empty())
    set.notes.push_back(fmt::format("{}: {} of {} queries are blank; the first: '{}'",
                                    printable_path(file), blank.size(), set.queries.size(),
                                    printable(blank[0], 60)));
  return set;
}

std::string checksum_of(const RetrievalSet& set) {
  std::string text = file_checksum(set.corpus);
  for (std::size_t query = 0; query < set.queries.size(); ++query) {
    text += fmt::format("\n{}\t{}", set.query_ids[query], text_checksum(set.queries[query]));
    for (const auto& [document, relevance] : set.judged[query])
      text += fmt::format("\t{}\t{}", document, relevance);
  }
  return text_checksum(text);
}

RankingScores evaluate_retrieval(TextEmbedder& queries, TextEmbedder& documents,
                                 const RetrievalSet& set,
                                 const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto rankings = rank_documents(documents, set, embed_all(queries, set.queries), progress);
  RankingScores mean{};
  for (std::size_t query = 0; query < rankings.size(); ++query) {
    std::vector<std::int64_t> ranked, judged;
    for (const Neighbour& found : rankings[query]) {
      const std::string& id = set.document_ids[static_cast<std::size_t>(found.key)];
      const bool itself = set.queries_are_documents && id == set.query_ids[query];
      if (itself || std::ssize(ranked) == ranking_depth) continue;
      const auto relevance = set.judged[query].find(id);
      ranked.push_back(relevance == set.judged[query].end() ? 0 : relevance->second);
    }
    for (const auto& [id, relevance] : set.judged[query]) judged.push_back(relevance);
    const RankingScores scores = score_ranking(ranked, std::move(judged));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += scores[i];
  }
  for (double& score : mean) score /= static_cast<double>(set.queries.size());
  return mean;
}

NearestNeighbours::NearestNeighbours(Tensor queries, std::int64_t k)
    : queries_(std::move(queries)), k_(static_cast<std::size_t>(k)) {
  require(k >= 1 && queries_.rank() == 2, "NearestNeighbours: {} of queries {}", k,
          queries_.shape());
  best_.resize(static_cast<std::size_t>(queries_.dim(0)));
  for (std::int64_t q = 0; q < queries_.dim(0); ++q)
    lengths_.push_back(std::sqrt(inner_product(queries_, q, queries_, q)));
}

void NearestNeighbours::add(const Tensor& vectors, std::span<const std::int64_t> keys) {
  require(vectors.rank() == 2 && vectors.dim(1) == queries_.dim(1) &&
              vectors.dim(0) == std::ssize(keys),
          "NearestNeighbours: vectors {} with {} keys for queries {}", vectors.shape(), keys.size(),
          queries_.shape());
  for (std::int64_t begin = 0; begin < vectors.dim(0); begin += block_vectors) {
    const std::int64_t end = std::min(begin + block_vectors, vectors.dim(0));
    const auto part =
        keys.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    for (std::int64_t first = 0; first < queries_.dim(0); first += block_queries)
      add_block(vectors.slice(0, begin, end), part, first);
  }
}

/// Compares vectors with block_queries queries from `first` on. Products in f32 select candidates.
void NearestNeighbours::add_block(const Tensor& vectors, std::span<const std::int64_t> keys,
                                  std::int64_t first) {
  const std::int64_t last = std::min(first + block_queries, queries_.dim(0));
  const Tensor products =
      linear(Var(queries_.slice(0, first, last)), Var(vectors)).value().contiguous();
  double longest = 0;
  for (std::int64_t i = 0; i < vectors.dim(0); ++i)
    longest = std::max(longest, inner_product(vectors, i, vectors, i));
  for (std::int64_t q = first; q < last; ++q) {
    std::vector<Neighbour>& heap = best_[static_cast<std::size_t>(q)];
    const float* const row = products.data<float>() + (q - first) * vectors.dim(0);
    // Larger than the rounding of a product in f32.
    const double slack = 1e-5 * lengths_[static_cast<std::size_t>(q)] * std::sqrt(longest);
    for (std::int64_t i = 0; i < vectors.dim(0); ++i) {
      if (heap.size() == k_ && row[i] < heap.front().score - slack) continue;
      const Neighbour found{keys[static_cast<std::size_t>(i)],
                            static_cast<float>(inner_product(queries_, q, vectors, i))};
      require_input(std::isfinite(found.score),
                    "the product of two vectors is {}; vectors of length 1 have none so large",
                    found.score);
      if (heap.size() == k_) {
        if (!is_nearer(found, heap.front())) continue;
        std::ranges::pop_heap(heap, is_nearer);
        heap.pop_back();
      }
      heap.push_back(found);
      std::ranges::push_heap(heap, is_nearer);
    }
  }
}

std::vector<std::vector<Neighbour>> NearestNeighbours::sorted() const {
  std::vector<std::vector<Neighbour>> result = best_;
  for (auto& neighbours : result) std::ranges::sort(neighbours, is_nearer);
  return result;
}

}  // namespace nystrom
