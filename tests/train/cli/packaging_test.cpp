// What packages need: the manual page (nystrom --man), and one version in all documents.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/support/places.h"
#include "tests/support/program_test.h"

namespace nystrom::testing {
namespace {

std::string man_page() {
  const TemporaryFolder folder;
  const Outcome outcome = succeeded(run_program(folder, "--man"));
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

TEST(ManPage, HasEveryCommandOptionAndExample) {
  const std::string page = man_page();
  EXPECT_TRUE(page.starts_with(".TH NYSTROM 1 \"\" \"nystrom " NYSTROM_VERSION "\""));
  for (const char* part : {".SS nystrom pretrain\n.B nystrom pretrain [OPTIONS] CONFIG\n",
                           ".SS nystrom approximation matrices\n", ".TP\n.B \\-\\-top\\-k N\n",
                           ".EX\n  nystrom doctor\n.EE\n", ".SH EXIT STATUS\n"})
    expect_says(page, part);
  const TemporaryFolder folder;
  std::istringstream commands(run_program(folder, "--help").out);
  std::string line;
  while (std::getline(commands, line) && line != "Subcommands:") continue;
  int count = 0;
  for (; std::getline(commands, line) && line.starts_with("  "); ++count) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    expect_says(page, ".SS nystrom " + name + "\n");
  }
  EXPECT_GE(count, 18);
}

TEST(ManPage, HasNoOptionThatHelpHides) {
  const std::string page = man_page();
  const std::size_t begin = page.find(".SS nystrom doctor");
  const std::string doctor = page.substr(begin, page.find(".SS", begin + 1) - begin);
  expect_hides(doctor, "\\-\\-set");
}

TEST(ManPage, IsFormattedWithoutWarnings) {
  const TemporaryFolder folder;
  if (run_command(folder, "sh -c 'command -v groff'").code != 0) GTEST_SKIP() << "no groff";
  EXPECT_EQ(
      run_command(folder, "sh -c '\"$0\" --man | groff -man -Tutf8 -k -ww -z' " + program_word())
          .err,
      "");
}

/// The newest version in CHANGELOG.md is the program's. Changes after it are above it, unreleased.
TEST(Changelog, EndsInTheVersionOfTheProgram) {
  const std::string changelog = read_bytes(source_folder() / "CHANGELOG.md");
  const std::regex heading("\n## \\[(?!Unreleased)([^\\]]+)\\]( - \\d{4}-\\d{2}-\\d{2})?\n");
  std::smatch newest;
  ASSERT_TRUE(std::regex_search(changelog, newest, heading));
  EXPECT_EQ(newest[1], NYSTROM_VERSION);
  EXPECT_TRUE(newest[2].matched) << "no date";
  const std::set<std::string> groups = {"Added",   "Changed", "Deprecated",
                                        "Removed", "Fixed",   "Security"};
  const std::regex group("\n### (.*)\n");
  for (std::sregex_iterator at(changelog.begin(), changelog.end(), group), end; at != end; ++at)
    EXPECT_TRUE(groups.contains((*at)[1])) << (*at)[1];
}

TEST(Citation, HasTheVersionOfTheProgram) {
  const std::string citation = read_bytes(source_folder() / "CITATION.cff");
  expect_says(citation, "\nversion: " NYSTROM_VERSION "\n");
}

TEST(Install, NamesThePackagesOfThisVersion) {
  for (const char* page : {"README.md", "docs/install.md"}) {
    const std::string text = read_bytes(source_folder() / page);
    for (const char* package : {"nystrom_" NYSTROM_VERSION "_amd64.deb",
                                "nystrom-" NYSTROM_VERSION "-linux-x86_64.tar.gz"})
      expect_says(text, package, page);
  }
}

}  // namespace
}  // namespace nystrom::testing
