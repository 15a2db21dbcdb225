// Tables of bags: columns, folders, splits, folds and leakage.
#include "data/tasks/bags.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "data/tasks/task_loader.h"
#include "tests/support/bags.h"
#include "tests/support/errors.h"
#include "tests/support/says.h"

namespace nystrom::testing {
namespace {

class Bags : public FolderTest {
 protected:
  void SetUp() override {
    write_bags(folder_.path(), 24, 1);
    task_.kind = TaskKind::features;
    task_.train = {(folder_ / "slides.csv").string()};
    task_.features_folder = (folder_ / "bags").string();
  }

  TaskConfig resolved() const { return resolve_task(task_); }
  std::string table(const std::string& text, const std::string& name = "t.csv") {
    write_bytes(folder_ / name, text);
    return (folder_ / name).string();
  }
  /// The message of the first error in the parts.
  std::string refusal() const {
    return folder_.with_dir(message_of([&] { bag_labels(resolved(), part_bags(resolved(), 1)); }));
  }

  TaskConfig task_;
};

std::set<std::string> ids_of(const std::vector<Bag>& bags) {
  std::set<std::string> ids;
  for (const Bag& bag : bags) ids.insert(bag.id);
  return ids;
}

TEST_F(Bags, FoldsPartGroupsEvenlyAndWholly) {
  task_.folds = 3;
  task_.columns.group = "patient";
  std::multiset<std::string> tested;
  for (task_.fold = 0; task_.fold < 3; ++task_.fold) {
    const BagParts parts = part_bags(resolved(), 1);
    EXPECT_EQ(parts.train.size() + parts.validation.size() + parts.test.size(), 24U);
    std::map<std::string, int> labels;
    std::map<std::string, std::set<const std::vector<Bag>*>> places;
    for (const std::vector<Bag>* part : {&parts.train, &parts.validation, &parts.test})
      for (const Bag& bag : *part) places[bag.group].insert(part);
    for (const auto& [group, in] : places) EXPECT_EQ(in.size(), 1U) << group;
    for (const Bag& bag : parts.test) ++labels[*bag.label];
    EXPECT_EQ(labels, (std::map<std::string, int>{{"normal", 4}, {"tumor", 4}}));
    for (const std::string& id : ids_of(parts.test)) tested.insert(id);
    EXPECT_EQ(ids_of(part_bags(resolved(), 1).test), ids_of(parts.test));
    EXPECT_EQ(bag_labels(resolved(), parts).names(), (std::vector<std::string>{"normal", "tumor"}));
  }
  EXPECT_EQ(tested.size(), 24U);
  EXPECT_EQ(std::set<std::string>(tested.begin(), tested.end()).size(), 24U);
}

/// A label in as many groups as there are folds comes into each, whatever else those groups hold.
TEST_F(Bags, EachFoldHasEachLabel) {
  task_.folds = 3;
  task_.columns.group = "patient";
  std::mt19937 draw(7);
  for (int table = 0; table < 60; ++table) {
    std::string rows = "id,label,patient\n";
    std::map<std::string, std::set<int>> groups;
    for (int bag = 0; bag < 24; ++bag) {
      const int patient = static_cast<int>(draw() % 9);
      const std::string label = std::vector<std::string>{"a", "b", "rare"}[draw() % 8 / 3];
      groups[label].insert(patient);
      rows += "s" + std::to_string(bag) + "," + label + ",p" + std::to_string(patient) + "\n";
    }
    if (std::ranges::any_of(groups, [](const auto& each) { return each.second.size() < 3; }))
      continue;
    write_bytes(folder_ / "slides.csv", rows);
    for (task_.fold = 0; task_.fold < 3; ++task_.fold) {
      std::set<std::string> labels;
      for (const Bag& bag : part_bags(resolved(), 1).test) labels.insert(*bag.label);
      EXPECT_EQ(labels, (std::set<std::string>{"a", "b", "rare"})) << rows;
    }
  }
}

TEST_F(Bags, LabelsOfAnotherTableAreThoseOfTheTrainingFiles) {
  task_.train = {table("id,label\ns0,a\ns1,b\n", "train.csv")};
  task_.validation = {table("id,label\ns2,a\ns3,B\n", "dev.csv")};
  EXPECT_EQ(bag_labels(resolved(), part_bags(resolved(), 1)).names(),
            (std::vector<std::string>{"a", "b"}));
}

TEST_F(Bags, LabelsThatAreNumbersStandInTheirOrder) {
  task_.train = {table("id,label\ns0,10.0\ns1,+2\ns2,-1\n", "train.csv")};
  task_.validation = {table("id,label\ns3,-1\n", "dev.csv")};
  EXPECT_EQ(bag_labels(resolved(), part_bags(resolved(), 1)).names(),
            (std::vector<std::string>{"-1", "+2", "10.0"}));
}

TEST_F(Bags, AShareIsHeldOutOfEachLabelAndGroupsStayWhole) {
  task_.validation_fraction = 1.0 / 3;
  task_.columns.group = "patient";
  const BagParts parts = part_bags(resolved(), 1);
  EXPECT_EQ(parts.train.size(), 16U);
  EXPECT_TRUE(parts.test.empty());
  std::map<std::string, int> labels;
  std::set<std::string> groups;
  for (const Bag& bag : parts.validation) {
    ++labels[*bag.label];
    groups.insert(bag.group);
  }
  EXPECT_EQ(labels, (std::map<std::string, int>{{"normal", 4}, {"tumor", 4}}));
  for (const Bag& bag : parts.train) EXPECT_FALSE(groups.contains(bag.group)) << bag.id;
  EXPECT_EQ(ids_of(part_bags(resolved(), 1).validation), ids_of(parts.validation));
  EXPECT_NE(ids_of(part_bags(resolved(), 3).validation), ids_of(parts.validation));
  EXPECT_EQ(TaskDataset::read_features(resolved(), task_sources(resolved(), 1).validation,
                                       Labelled::required, LabelSet({"normal", "tumor"}), 512)
                .size(),
            8);
}

TEST_F(Bags, AShareKeepsEqualFilesAndTheirGroupsTogether) {
  std::string rows = "id,label,patient\n";
  for (const auto& [copy, of] : {std::pair("s90", "s1"), {"s91", "s2"}})
    std::filesystem::copy_file(folder_ / "bags" / fmt::format("{}.h5", of),
                               folder_ / "bags" / fmt::format("{}.h5", copy));
  // s0 and s1 are of p0, s90 equals s1 and is of p9, and so is s91, which equals s2.
  for (const char* row : {"s0,a,p0", "s1,a,p0", "s2,a,p1", "s90,a,p9", "s91,a,p9"})
    rows += row + std::string("\n");
  for (int i = 6; i < 24; ++i) rows += fmt::format("s{},a,q{}\n", i, i);
  task_.train = {table(rows)};
  task_.columns.group = "patient";
  task_.validation_fraction = 0.5;
  std::set<std::size_t> sizes;
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    const std::set<std::string> held = ids_of(part_bags(resolved(), seed).validation);
    std::size_t joined = 0;
    for (const char* id : {"s0", "s1", "s2", "s90", "s91"}) joined += held.count(id);
    sizes.insert(joined);
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{0, 5}));
}

/// Pretraining reads no labels, and parts the examples as fine-tuning does where they are there.
TEST_F(Bags, PartsAreTheSameWithoutTheNeedOfLabels) {
  task_.columns.group = "patient";
  const auto parted = [&](Labelled labelled) {
    const BagParts parts = part_bags(resolved(), 1, labelled);
    return std::vector{ids_of(parts.train), ids_of(parts.validation), ids_of(parts.test)};
  };
  task_.folds = 3;
  EXPECT_EQ(parted(Labelled::for_parts), parted(Labelled::required));
  task_.folds.reset();
  task_.validation_fraction = 0.25;
  EXPECT_EQ(parted(Labelled::for_parts), parted(Labelled::required));
  std::string rows = "id,patient\n";
  for (int i = 0; i < 24; ++i) rows += fmt::format("s{},p{}\n", i, i / 4);
  task_.train = {table(rows)};
  const BagParts parts = part_bags(resolved(), 1, Labelled::for_parts);
  EXPECT_EQ(parts.train.size() + parts.validation.size(), 24U);
  std::set<std::string> held;
  for (const Bag& bag : parts.validation) held.insert(bag.group);
  EXPECT_GE(held.size(), 1U);
  for (const Bag& bag : parts.train) EXPECT_FALSE(held.contains(bag.group)) << bag.group;
  expect_says(message_of([&] { part_bags(resolved(), 1); }), "'label'");
}

TEST_F(Bags, FilesOfBagsNeedNoTableWithoutLabels) {
  task_.train = {(folder_ / "bags/*.h5").string()};
  task_.features_folder.reset();
  task_.validation_fraction = 0.25;
  EXPECT_TRUE(hold_bags(resolved(), Labelled::for_parts));
  EXPECT_FALSE(hold_bags(resolved(), Labelled::required));
  EXPECT_EQ(feature_width(resolved()), 4);
  const BagParts parts = part_bags(resolved(), 1, Labelled::for_parts);
  EXPECT_EQ(parts.validation.size(), 6U);
  EXPECT_EQ(parts.train.size(), 18U);
}

/// What a file is depends on what the model learned, not on its ending.
TEST_F(Bags, ATaskOfBagsReadsThemWholeAndOneOfSamplesCutsThem) {
  const auto write = [&](const char* name, const std::vector<hsize_t>& shape, bool labelled) {
    ArrayFile file(folder_ / name);
    file.add("features", H5T_IEEE_F32LE, shape, std::vector<double>(120, 1));
    if (labelled) file.add("labels", H5T_STD_I64LE, {1}, {1});
  };
  write("samples.h5", {3, 10, 4}, false);
  write("rows.h5", {30, 4}, false);
  write("one.h5", {1, 30, 4}, false);
  write("labelled.h5", {1, 30, 4}, true);
  const auto read = [&](const char* name, Labelled labelled = Labelled::optional) {
    return TaskDataset::read_features(resolved(), {(folder_ / name).string()}, labelled,
                                      LabelSet({"normal", "tumor"}), 8);
  };
  for (const char* name : {"rows.h5", "one.h5", "labelled.h5"}) {
    EXPECT_EQ(read(name).length(0), 30) << name;
    EXPECT_EQ(read(name).counts().truncated.count, 0) << name;
  }
  expect_says(message_of([&] { read("samples.h5"); }),
              "'features' is [3, 10, 4], expected [rows, width]");
  write_bytes(folder_ / "rows.pt", "");
  expect_says(message_of([&] { read("rows.pt"); }), "rows.pt: a bag of features is .h5, ");
  expect_says(message_of([&] { read("rows.h5", Labelled::required); }), "a file of one bag has no");
  for (const char* name : {"one.h5", "labelled.h5", "samples.h5"})
    expect_says(message_of([&] { read(name, Labelled::required); }),
                "the model learned bags of a table; name the files of bags and their labels in a");
  task_.features_folder.reset();
  task_.train = {"samples.h5"};
  for (const char* name : {"rows.h5", "one.h5", "labelled.h5", "samples.h5"}) {
    const TaskDataset data = read(name);
    EXPECT_EQ(data.length(0), 8) << name;
    EXPECT_EQ(data.counts().truncated.count, data.size()) << name;
    const std::int64_t first = 0;
    EXPECT_EQ(make_task_batch(data, {&first, 1}, {&first, 1}).input.features.dim(0), 8) << name;
  }
  task_.train = {(folder_ / "one.h5").string()};
  EXPECT_TRUE(hold_bags(resolved(), Labelled::for_parts));
  task_.train.push_back((folder_ / "samples.h5").string());
  EXPECT_FALSE(hold_bags(resolved(), Labelled::for_parts)) << "one sample among files of more";
  task_.train.pop_back();
  task_.validation = {(folder_ / "samples.h5").string()};
  EXPECT_FALSE(hold_bags(resolved(), Labelled::for_parts));
  task_.validation.clear();
  task_.train = {(folder_ / "labelled.h5").string()};
  EXPECT_FALSE(hold_bags(resolved(), Labelled::for_parts));
}

TEST_F(Bags, AFormatOfTablesIsNotThatOfFeatures) {
  task_.format = TaskFormat::csv;
  for (const char* name : {"a.npy", "a.NPY", "b/*.h5", "a.hdf5", "a.safetensors"})
    EXPECT_FALSE(are_bag_tables(resolved(), {name})) << name;
  EXPECT_TRUE(are_bag_tables(resolved(), {"slides.txt"}));
}

TEST_F(Bags, TooFewGroupsForAShareAreRefused) {
  task_.columns.group = "patient";
  task_.validation_fraction = 0.25;
  task_.train = {table("id,label,patient\ns0,a,p\ns1,a,p\ns2,b,q\ns3,b,q\n")};
  EXPECT_EQ(refusal(),
            "task.validation_fraction 0.25: of 4 examples, 2 of them in different groups, it holds "
            "none out: each label keeps one to train on; give more examples or a larger fraction");
  task_.train = {(folder_ / "bags").string() + "/*.h5"};
  EXPECT_EQ(message_of([&] { task_sources(resolved(), 1); }),
            (folder_ / "bags/s0.h5").string() +
                ": a file of one bag has no label; name the files and their labels in a table, "
                "such as slides.csv with the columns file and label");
}

TEST_F(Bags, GroupsThatLookAlikeAreTold) {
  task_.columns.group = "patient";
  task_.validation_fraction = 0.5;
  task_.train = {table("id,label,patient\ns0,a,P1\ns1,b,p1\ns2,b,q\ns3,a,r\n")};
  const BagParts parts = part_bags(resolved(), 1);
  ASSERT_EQ(parts.notes.size(), 1U);
  EXPECT_TRUE(parts.notes[0].starts_with("the groups 'P1' and 'p1' differ only in"))
      << parts.notes[0];
  task_.validation_fraction.reset();
  task_.train = {table("id,label,patient\ns0,a,P1\ns1,b,q\n")};
  task_.validation = {table("id,label,patient\ns2,a,p1\ns3,b,r\n", "v.csv")};
  EXPECT_EQ(part_bags(resolved(), 1).notes.size(), 1U);
}

TEST_F(Bags, SplitsHaveRaggedColumns) {
  task_.splits = {table(",train,val,test\n0,s0,s2,s4\n1,s1,s3,\n2,s6,,\n")};
  const BagParts parts = part_bags(resolved(), 1);
  EXPECT_EQ(ids_of(parts.train), (std::set<std::string>{"s0", "s1", "s6"}));
  EXPECT_EQ(ids_of(parts.validation), (std::set<std::string>{"s2", "s3"}));
  EXPECT_EQ(ids_of(parts.test), (std::set<std::string>{"s4"}));
  ASSERT_EQ(parts.notes.size(), 1U);
  expect_says(parts.notes[0], "18 of 24 examples are in no part");
}

TEST_F(Bags, RefuseWrongSplits) {
  task_.splits = {table(",train,val,test\n0,s0,s2,s99\n")};
  EXPECT_EQ(refusal(), "DIR/t.csv:2: 's99' is in no row of task.train; did you mean 's9'?");
  task_.splits = {table(",train,val,test\ns0,True,False,False\n")};
  EXPECT_EQ(
      refusal(),
      "DIR/t.csv:2: 'True' is in no row of task.train; the columns hold ids, not True and False");
  task_.splits = {table(",train,val,test\n0,s0,s2,s0\n")};
  EXPECT_EQ(refusal(), "DIR/t.csv:2: 's0' is named again, as at DIR/t.csv:2");
  task_.splits = {table(",train,val,test\n0,s0,,s2\n")};
  EXPECT_EQ(refusal(), "DIR/slides.csv: there is no example in the validation part");
  task_.splits = {table("train,validation\ns0,s1\n")};
  EXPECT_EQ(refusal(), "DIR/t.csv:1: there is no column 'val'; columns: 'train', 'validation'");
  task_.splits = {table(",train,val,test\n0,s0,s2,s1\n")};
  task_.columns.group = "patient";
  EXPECT_EQ(refusal(),
            "DIR/slides.csv:3: the group 'p0' is in the test part, and by DIR/slides.csv:2 in the "
            "training part too; rows of one group belong to one part");
}

/// Without a group an id is one: a patient with several slides.
TEST_F(Bags, RowsOfAnIdStayTogether) {
  task_.features_folder.reset();
  task_.columns.id = "id";
  std::string rows = "id,file,label\n";
  for (int i = 0; i < 24; ++i) rows += fmt::format("P{},bags/s{}.h5,{}\n", i % 12, i, i % 2);
  task_.train = {table(rows)};
  task_.validation_fraction = 1.0 / 3;
  for (std::int64_t seed = 0; seed < 10; ++seed) {
    const BagParts parts = part_bags(resolved(), seed);
    EXPECT_EQ(parts.validation.size(), 8U);
    const std::set<std::string> trained = ids_of(parts.train);
    for (const Bag& bag : parts.validation) EXPECT_FALSE(trained.contains(bag.id)) << bag.id;
  }
  task_.validation_fraction.reset();
  task_.train = {table("id,file,label\nP1,bags/s0.h5,a\nP2,bags/s1.h5,b\n", "a.csv")};
  task_.validation = {table("id,file,label\nP1,bags/s2.h5,a\n", "b.csv")};
  EXPECT_EQ(refusal(),
            "DIR/b.csv:2: the id 'P1' is in the validation part, and by DIR/a.csv:2 in the "
            "training part too; rows of one id belong to one part; if it is no patient or slide, "
            "leave task.columns.id out, or name another column in task.columns.group");
}

TEST_F(Bags, RefuseLeakageBetweenTables) {
  task_.validation = {table("id,label\ns3,normal\n")};
  EXPECT_EQ(
      refusal(),
      "DIR/t.csv:2: 'DIR/bags/s3.h5' is the file of DIR/slides.csv:5 too; name each file once");
}

TEST_F(Bags, RefuseWrongRows) {
  task_.folds = 3;
  const auto refusal_of = [&](const std::string& text) {
    task_.train = {table(text)};
    return refusal();
  };
  EXPECT_EQ(
      refusal_of("id,label\ns77,a\n"),
      "DIR/t.csv:2: task.features_folder 'DIR/bags' has no file s77.h5, .npy or .safetensors");
  write_bytes(folder_ / "bags/s77.pt", "");
  EXPECT_EQ(refusal_of("id,label\ns77,a\n"),
            "DIR/t.csv:2: task.features_folder 'DIR/bags' has no file s77.h5, .npy or "
            ".safetensors; it has 's77.pt'");
  EXPECT_EQ(refusal_of("id,label\ns1.svs,a\n"),
            "DIR/t.csv:2: task.features_folder 'DIR/bags' has no file s1.svs.h5, .npy or "
            ".safetensors; it has 's1.h5'");
  EXPECT_EQ(refusal_of("id,label\ns1.h5,a\n"),
            "DIR/t.csv:2: task.features_folder 'DIR/bags' has no file s1.h5.h5, .npy or "
            ".safetensors; it has 's1.h5'");
  EXPECT_EQ(refusal_of("id,label\nnone/s1,a\n"),
            "DIR/t.csv:2: task.features_folder: there is no folder 'DIR/bags/none'");
  EXPECT_EQ(refusal_of("id,label\ns1,\n"), "DIR/t.csv:2: the cell of column 'label' is empty");
  EXPECT_EQ(refusal_of("id,label\ns1,a\ns1,b\n"),
            "DIR/t.csv:3: 'DIR/bags/s1.h5' is the file of DIR/t.csv:2 too; name each file once");
  EXPECT_EQ(refusal_of("id\ns1\n"),
            "DIR/t.csv:1: there is no column 'label'; columns: 'id'; name the column by "
            "task.columns.label");
  EXPECT_EQ(refusal_of("id,label\n"), "DIR/t.csv: there is no row in it");
  EXPECT_EQ(refusal_of("id,label\ns1,a\ns2,a\ns3,a\ns4,b\n"),
            "task.folds is 3, but the label 'b' is in only 1 groups or single examples; lower it "
            "to at most 1, or leave the label out");
  EXPECT_EQ(refusal_of("id,label\ns1,a\ns2,a\ns3,a\n"),
            "DIR/t.csv: the column 'label' has 1 different labels, expected 2 to 1000; a number to "
            "predict stands in task.columns.value");
  task_.columns.weight = "w";
  EXPECT_EQ(refusal_of("id,label,w\ns1,a,-1\n"),
            "DIR/t.csv:2: the weight is -1; expected at least 0");
  task_.columns = {};
  task_.columns.value = "v";
  EXPECT_EQ(refusal_of("id,v\ns1,ten\n"), "DIR/t.csv:2: the value 'ten' is no finite number");
  EXPECT_EQ(refusal_of("id,v\ns1,\"1,5\"\n"),
            "DIR/t.csv:2: the value '1,5' is no finite number; write it without commas, with a "
            "decimal point");
}

TEST_F(Bags, FilesAreNamedRelativeToTheirTable) {
  task_.features_folder.reset();
  task_.train = {table("{\"file\": \"bags/s0.h5\", \"label\": 3}\n", "t.jsonl")};
  const std::vector<Bag> bags = read_bags(resolved(), task_.train, Labelled::required);
  ASSERT_EQ(bags.size(), 1U);
  EXPECT_EQ(bags[0].file, folder_ / "bags/s0.h5");
  EXPECT_EQ(bags[0].label, "3");
  EXPECT_EQ(feature_width(resolved()), 4);
}

// ---- Batches ------------------------------------------------------------------------------------

TEST_F(Bags, BatchesKeepHalfPrecisionAndAreReadAhead) {
  const std::vector<Bag> bags = read_bags(resolved(), task_.train, Labelled::required);
  const auto data = std::make_shared<TaskDataset>(
      TaskDataset::of_bags(resolved(), bags, Labelled::required, LabelSet({"normal", "tumor"})));
  TaskLoaderOptions options{.batch_size = 5, .micro_batch_size = 2};
  TaskLoader loader(data, options), later(data, options, 2);
  for (int step = 0; step < 4; ++step) {
    std::vector<Batch> batches = loader.next();
    ASSERT_EQ(batches.size(), 3U);
    for (Batch& batch : batches) {
      EXPECT_FALSE(batch.input.features.defined()) << "read one after another";
      const std::vector<std::int64_t> samples = batch.samples;
      batch = loader.whole(batch);
      EXPECT_EQ(batch.samples, samples);
    }
    EXPECT_EQ(batches[0].input.features.dtype(), DType::f16);
    EXPECT_TRUE(batches[0].weights.empty());
    if (step < 2) continue;
    const std::vector<Batch> same = later.next();
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(same[i].samples, batches[i].samples);
      EXPECT_EQ(later.whole(same[i]).input.features.cast(DType::f32).to_doubles(),
                batches[i].input.features.cast(DType::f32).to_doubles());
    }
  }
  std::set<std::int64_t> seen;
  TaskEvaluationLoader all(data, options);
  while (const auto batch = all.next()) seen.insert(batch->samples.begin(), batch->samples.end());
  EXPECT_EQ(seen.size(), 24U);
}

TEST_F(Bags, LongOnesAreEvaluatedAlone) {
  std::vector<std::filesystem::path> files;
  for (const std::size_t rows : {5000U, 10U, 5000U, 10U}) {
    files.push_back(folder_ / fmt::format("long{}.h5", files.size()));
    write_bag(files.back(), 1, std::vector<double>(rows, 1));
  }
  const auto data = std::make_shared<TaskDataset>(
      TaskDataset::of_bags(resolved(), bags_of_files(files), Labelled::optional, {}));
  TaskEvaluationLoader loader(data, {.micro_batch_size = 16});
  std::vector<std::vector<std::int64_t>> batches;
  while (const auto batch = loader.next()) batches.push_back(batch->samples);
  EXPECT_EQ(batches, (std::vector<std::vector<std::int64_t>>{{1, 3}, {0}, {2}}));
}

TEST_F(Bags, RareLabelsWeighMoreOrComeMoreOften) {
  task_.train = {table("id,label,w\ns0,a,1\ns1,a,1\ns2,a,1\ns3,b,0.5\n")};
  task_.columns.weight = "w";
  task_.balance = TaskBalance::weights;
  const auto data = [&] {
    return std::make_shared<TaskDataset>(
        TaskDataset::of_bags(resolved(), read_bags(resolved(), task_.train, Labelled::required),
                             Labelled::required, LabelSet({"a", "b"})));
  };
  TaskLoaderOptions options;
  options.batch_size = options.micro_batch_size = 4;
  {
    const Batch batch = TaskLoader(data(), options).next()[0];
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(batch.weights[i], batch.samples[i] == 3 ? 0.5 * 4 / 2 : 4.0 / 6);
  }
  task_.balance = TaskBalance::sampling;
  task_.columns.weight.reset();
  TaskLoader loader(data(), options);
  std::map<std::int64_t, int> uses;
  for (int step = 0; step < 3; ++step) {
    const Batch batch = loader.next()[0];
    for (const std::int64_t sample : batch.samples) ++uses[sample];
  }
  EXPECT_EQ(uses, (std::map<std::int64_t, int>{{0, 2}, {1, 2}, {2, 2}, {3, 6}}));
}

}  // namespace
}  // namespace nystrom::testing
