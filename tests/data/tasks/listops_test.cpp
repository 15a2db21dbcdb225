// ListOps: the generator of expressions, and their values.
#include "data/tasks/listops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/tasks/task_dataset.h"
#include "data/tokenizers/builtin_tokenizer.h"
#include "tests/support/listops.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using testing::evaluate_listops;

struct Value {
  const char* source;
  int value;
};

TEST(ListOps, Values) {
  const Value values[] = {
      {"7", 7},
      {"( 7 )", 7},
      {"[MIN 4 2 9 ]", 2},
      {"[MAX 4 2 9 ]", 9},
      {"[SM 4 2 9 ]", 5},
      {"[MED 4 2 9 ]", 4},
      {"[MED 9 1 4 2 ]", 3},
      {"[MED 1 2 ]", 1},  // 1.5 truncated
      {"[MED 3 ]", 3},
      {"[MAX 2 9 [MIN 4 7 ] 0 ]", 9},
      {"[SM [SM [SM 5 6 ] 7 ] [MED 1 8 [MAX 3 ] ] ]", 1},
      {"( ( ( ( [SM ( ( ( [MAX 3 ) 8 ) ] ) ) 5 ) 9 ) ] )", 2},
  };
  for (const Value& each : values)
    EXPECT_EQ(evaluate_listops(each.source), each.value) << each.source;
}

/// The number of symbols without parentheses, and the nesting depth of lists.
std::pair<std::int64_t, std::int64_t> size_of(const std::string& source) {
  std::int64_t symbols = 0, depth = 0, deepest = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool begins = source[i] != ' ' && (i == 0 || source[i - 1] == ' ');
    symbols += begins && source[i] != '(' && source[i] != ')';
    depth += source[i] == '[' ? 1 : source[i] == ']' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  return {symbols, deepest};
}

TEST(ListOpsGenerator, KeepsToItsLimits) {
  ListOpsGenerator generator(
      {.max_depth = 4, .max_arguments = 5, .min_length = 20, .max_length = 60, .seed = 3});
  for (int i = 0; i < 200; ++i) {
    const ListOpsSample sample = generator.next();
    const auto [symbols, depth] = size_of(sample.source);
    EXPECT_GT(symbols, 20);
    EXPECT_LT(symbols, 60);
    EXPECT_LE(depth, 3);
    EXPECT_EQ(evaluate_listops(sample.source), sample.target);
  }
}

TEST(ListOpsGenerator, FollowsFromItsSeed) {
  const auto samples = [](std::int64_t seed) {
    ListOpsGenerator generator({.min_length = 30, .max_length = 90, .seed = seed});
    std::vector<std::string> sources;
    for (int i = 0; i < 20; ++i) sources.push_back(generator.next().source);
    return sources;
  };
  EXPECT_EQ(samples(1), samples(1));
  EXPECT_NE(samples(1), samples(2));
}

TEST(ListOpsGenerator, DrawsOperatorsAndNumbersOfArgumentsAlikeOften) {
  // Lists of digits with 2 to 4 arguments. The minimum length excludes single digits.
  ListOpsGenerator generator(
      {.max_depth = 2, .max_arguments = 4, .min_length = 1, .max_length = 7, .seed = 5});
  std::map<std::string, int> operators;
  std::map<std::int64_t, int> lengths;
  for (int i = 0; i < 300; ++i) {
    const ListOpsSample sample = generator.next();
    ++operators[sample.source.substr(sample.source.find('['), 4)];
    ++lengths[size_of(sample.source).first];
  }
  EXPECT_EQ(operators.size(), 4);
  EXPECT_EQ(lengths.size(), 3);
  for (const auto& [name, times] : operators) EXPECT_NEAR(times, 75, 30) << name;
  for (const auto& [length, times] : lengths) EXPECT_NEAR(times, 100, 40) << length;
}

TEST(ListOpsGenerator, RefusesWhatCannotBe) {
  EXPECT_EQ(input_error([] { ListOpsGenerator({.max_depth = 0}); }),
            "max_depth 0 must be at least 1");
  EXPECT_EQ(input_error([] { ListOpsGenerator({.max_arguments = 1}); }),
            "max_arguments 1 must be at least 2");
  EXPECT_EQ(input_error([] { ListOpsGenerator({.min_length = 5, .max_length = 6}); }),
            "no expression is longer than 5 and shorter than 6 symbols");
  ListOpsGenerator digits({.max_depth = 1, .min_length = 0, .max_length = 9});
  for (int i = 0; i < 10; ++i) digits.next();
  EXPECT_EQ(input_error([&] { digits.next(); }),
            "of 1000000 expressions none is new, longer than 0 and shorter than 9 symbols; ask for "
            "fewer samples or other lengths");
}

/// Files of `nystrom listops` have the format of Long Range Arena.
TEST(ListOpsFile, IsReadByItsRecipe) {
  TaskConfig task{.recipe = "listops"};
  task = resolve_task(task);
  const std::string file =
      testing::source_folder().string() + "/tests/fixtures/tasks/listops/basic_train.tsv";
  const auto tokenizer = make_builtin_tokenizer(BuiltinTokenizer::listops);
  const TaskEncoder encoder(task, task_labels(task), *tokenizer, 2000);
  const TaskDataset dataset = TaskDataset::read(encoder, {file}, Labelled::required, true);
  ASSERT_EQ(dataset.size(), 20);
  EXPECT_EQ(dataset.counts().unknown, 0);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::string& source = dataset.example(i).text;
    EXPECT_EQ(dataset.sample(i).label, evaluate_listops(source));
    EXPECT_EQ(dataset.length(i), size_of(source).first);
  }
}

}  // namespace
}  // namespace nystrom
