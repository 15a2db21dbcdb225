// Runs the rows of tests/world/*.yaml that have a command: public reports about other programs,
// tried on this one. README.md describes the rows.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "tests/support/mpirun.h"
#include "tests/support/program_test.h"
#include "tests/support/tiny_checkpoint.h"

namespace nystrom::testing {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string nature, run;
  std::map<std::string, std::string> given;
  int code = 0;
  std::vector<std::string> says, hides;
};

/// One text, or a list of texts.
std::vector<std::string> texts(const YAML::Node& node) {
  if (!node) return {};
  return node.IsSequence() ? node.as<std::vector<std::string>>()
                           : std::vector{node.as<std::string>()};
}

Row row_of(const YAML::Node& node) {
  Row row;
  row.nature = node["nature"].as<std::string>();
  row.run = node["run"].as<std::string>();
  if (node["given"]) row.given = node["given"].as<std::map<std::string, std::string>>();
  row.code = node["code"].as<int>(0);
  row.says = texts(node["says"]);
  row.hides = texts(node["hides"]);
  return row;
}

/// The content of each file below `folder`, the target of each link.
std::map<std::string, std::string> content(const fs::path& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    found[name] = entry.is_symlink()        ? fs::read_symlink(entry.path()).string()
                  : entry.is_regular_file() ? read_bytes(entry.path())
                                            : "";
  }
  return found;
}

/// A tiny masked language model, in a folder that is made once.
const fs::path& model() {
  static const TemporaryFolder folder;
  static const TinyCheckpoint made(folder.path() / "model");
  static const fs::path path = folder.path() / "model";
  return path;
}

class WorldTest : public ::testing::Test {
 public:
  explicit WorldTest(Row row) : row_(std::move(row)) {}

  void TestBody() override {
    const TemporaryFolder folder;
    fs::copy(model(), folder.path() / "model", fs::copy_options::recursive);
    for (const auto& [name, text] : row_.given) write_bytes(folder.path() / name, text);
    const std::string tools =
        "export PATH='" + build_folder().string() + "':\"$PATH\" mpirun='" + mpirun + "'; set -e\n";
    const Outcome outcome = run_command(folder, "( " + tools + row_.run + "\n)");
    const std::string output = outcome.out + outcome.err;
    EXPECT_EQ(outcome.code, row_.code) << output;
    for (const std::string& text : row_.says) expect_says(output, text);
    for (const std::string& text : row_.hides) expect_hides(output, text);
    const auto after = content(folder.path());
    for (const auto& [name, text] : after) expect_hides(name, ".tmp-", "was left behind");
    if (row_.code != 2) return;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("nystrom: ")) << outcome.err;
    for (const auto& [name, text] : row_.given)
      EXPECT_TRUE(after.contains(name) && after.at(name) == text) << name << " was touched";
  }

 private:
  Row row_;
};

/// The nature of a row as the name of a test.
std::string name_of(std::string nature) {
  for (char& c : nature)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return nature;
}

[[maybe_unused]] const bool registered = [] {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(source_folder() / "tests" / "world"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    for (const YAML::Node& node : YAML::LoadFile(file.string())) {
      if (!node["run"]) continue;
      const Row row = row_of(node);
      ::testing::RegisterTest(("World_" + file.stem().string()).c_str(),
                              name_of(row.nature).c_str(), nullptr, nullptr, file.c_str(),
                              node.Mark().line + 1,
                              [row]() -> ::testing::Test* { return new WorldTest(row); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace nystrom::testing
