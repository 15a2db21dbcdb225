#include "data/tokenizers/pipeline/post_processors.h"

#include <map>

#include "core/base/json_part.h"
#include "core/base/printable.h"
#include "core/check.h"
#include "data/tokenizers/pipeline/part_json.h"
#include "data/tokenizers/pipeline/vocabulary.h"

namespace nystrom {
namespace {

using Kind = TemplatePart::Kind;

std::int32_t read_id(const JsonPart& part, const Vocabulary& vocabulary) {
  return static_cast<std::int32_t>(part.integer(0, vocabulary.size() - 1));
}

std::int32_t read_type(const JsonPart& part) {
  return static_cast<std::int32_t>(part["type_id"].integer(0, 1000));
}

std::vector<TemplatePart> read_template(
    const JsonPart& part, const std::map<std::string, std::vector<std::int32_t>>& special) {
  std::vector<TemplatePart> parts;
  int first = 0, second = 0;
  for (const JsonPart& each : part.elements()) {
    if (const auto sequence = each.find("Sequence")) {
      const std::string name = (*sequence)["id"].text();
      if (name != "A" && name != "B")
        (*sequence)["id"].fail(fmt::format("got '{}', expected A or B", printable(name)));
      parts.push_back({name == "A" ? Kind::first : Kind::second, read_type(*sequence), {}});
      ++(name == "A" ? first : second);
      continue;
    }
    const JsonPart token = each["SpecialToken"];
    const auto found = special.find(token["id"].text());
    if (found == special.end())
      token["id"].fail(
          fmt::format("'{}' is not among special_tokens", printable(token["id"].text())));
    parts.push_back({Kind::special, read_type(token), found->second});
  }
  if (first != 1 || second > 1) part.fail("expected each text once");
  return parts;
}

PostProcessor read_templates(const JsonPart& part, const Vocabulary& vocabulary) {
  std::map<std::string, std::vector<std::int32_t>> special;
  for (const auto& [name, token] : part["special_tokens"].members()) {
    std::vector<std::int32_t>& ids = special[name];
    for (const JsonPart& id : token["ids"].elements()) ids.push_back(read_id(id, vocabulary));
  }
  PostProcessor result;
  result.single = read_template(part["single"], special);
  result.pair = read_template(part["pair"], special);
  for (const TemplatePart& each : result.single)
    if (each.kind == Kind::second) part["single"].fail("holds B, of which there is none");
  return result;
}

/// Reads a list of a name and an id. The id counts.
std::int32_t read_named_id(const JsonPart& part, const Vocabulary& vocabulary) {
  const auto elements = part.elements();
  if (elements.size() != 2) part.fail("expected a token and its id");
  elements[0].text();
  return read_id(elements[1], vocabulary);
}

/// Adds a step of a sequence. At most one step may have a template with special tokens, and at most
/// one may trim offsets: in Hugging Face's library a second one trims as much again.
void merge(PostProcessor& whole, const PostProcessor& part, const JsonPart& place) {
  if (part.trims_offsets) {
    if (whole.trims_offsets)
      place.fail(
          "a second step that trims offsets in a sequence of post-processors is not supported");
    whole.trims_offsets = true;
    whole.adds_prefix_space = part.adds_prefix_space;
  }
  if (part.is_plain()) return;
  if (!whole.is_plain())
    place.fail("a second template in a sequence of post-processors is not supported");
  whole.single = part.single;
  whole.pair = part.pair;
}

}  // namespace

bool PostProcessor::is_plain() const {
  const PostProcessor plain;
  return single == plain.single && pair == plain.pair;
}

std::optional<std::int32_t> PostProcessor::end(bool behind) const {
  std::optional<std::int32_t> id;
  bool passed = false;
  for (const TemplatePart& each : single) {
    passed |= each.kind == Kind::first;
    if (each.kind == Kind::special && each.ids.size() == 1 && passed == behind) id = each.ids[0];
  }
  return id;
}

PostProcessor PostProcessor::bert(std::int32_t cls, std::int32_t sep) {
  PostProcessor result;
  result.single = {{Kind::special, 0, {cls}}, {Kind::first, 0, {}}, {Kind::special, 0, {sep}}};
  result.pair = result.single;
  result.pair.insert(result.pair.end(), {{Kind::second, 1, {}}, {Kind::special, 1, {sep}}});
  return result;
}

PostProcessor PostProcessor::roberta(std::int32_t cls, std::int32_t sep) {
  PostProcessor result = bert(cls, sep);
  result.pair = result.single;
  result.pair.insert(result.pair.end(),
                     {{Kind::special, 0, {sep}}, {Kind::second, 0, {}}, {Kind::special, 0, {sep}}});
  return result;
}

PostProcessor read_post_processor(const JsonPart& part, const Vocabulary& vocabulary) {
  const std::string type = part["type"].text();
  PostProcessor result;
  if (type == "TemplateProcessing") {
    result = read_templates(part, vocabulary);
  } else if (type == "BertProcessing") {
    result = PostProcessor::bert(read_named_id(part["cls"], vocabulary),
                                 read_named_id(part["sep"], vocabulary));
  } else if (type == "RobertaProcessing") {
    const std::int32_t cls = read_named_id(part["cls"], vocabulary),
                       sep = read_named_id(part["sep"], vocabulary);
    result = PostProcessor::roberta(cls, sep);
    result.trims_offsets = part.boolean_or("trim_offsets", true);
    result.adds_prefix_space = part.boolean_or("add_prefix_space", true);
  } else if (type == "ByteLevel") {
    result.trims_offsets = part.boolean_or("trim_offsets", true);
    result.adds_prefix_space = part.boolean_or("add_prefix_space", true);
  } else if (type == "Sequence") {
    for (const JsonPart& each : part["processors"].elements())
      merge(result, read_post_processor(each, vocabulary), each);
  } else {
    part.fail(
        fmt::format("post-processors of type '{}' are not supported; known are BertProcessing, "
                    "ByteLevel, RobertaProcessing, Sequence "
                    "and TemplateProcessing",
                    printable(type)));
  }
  return result;
}

nlohmann::json post_processor_json(const PostProcessor& processor, const Vocabulary& vocabulary) {
  using Json = nlohmann::json;
  Json tokens = Json::object();
  const auto template_json = [&](const std::vector<TemplatePart>& parts) {
    Json list = Json::array();
    for (const TemplatePart& each : parts) {
      Json part = {{"id", each.kind == Kind::first ? "A" : "B"}, {"type_id", each.type_id}};
      if (each.kind == Kind::special) {
        std::vector<std::string> pieces;
        for (const std::int32_t id : each.ids) pieces.push_back(vocabulary.piece(id));
        const std::string name = fmt::format("{}", fmt::join(pieces, ""));
        part["id"] = name;
        tokens[name] = {{"id", name}, {"ids", each.ids}, {"tokens", pieces}};
      }
      list.push_back({{each.kind == Kind::special ? "SpecialToken" : "Sequence", part}});
    }
    return list;
  };
  Json steps = Json::array();
  if (processor.trims_offsets) steps.push_back(byte_level_json(processor.adds_prefix_space));
  if (!processor.is_plain()) {
    const Json single = template_json(processor.single), pair = template_json(processor.pair);
    steps.push_back({{"type", "TemplateProcessing"},
                     {"single", single},
                     {"pair", pair},
                     {"special_tokens", tokens}});
  }
  if (steps.size() < 2) return steps.empty() ? Json() : steps[0];
  return {{"type", "Sequence"}, {"processors", steps}};
}

WrappedIds fill_template(const std::vector<TemplatePart>& parts,
                         std::span<const std::int32_t> first,
                         std::span<const std::int32_t> second) {
  WrappedIds result;
  result.ids.reserve(first.size() + second.size() + parts.size());
  for (const TemplatePart& part : parts) {
    const std::span<const std::int32_t> ids = part.kind == Kind::first    ? first
                                              : part.kind == Kind::second ? second
                                                                          : part.ids;
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.type_ids.resize(result.ids.size(), part.type_id);
  }
  return result;
}

}  // namespace nystrom
