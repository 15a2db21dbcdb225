// Texts in tables: every format and form is read by its column, row for row, or refused.
#include <gtest/gtest.h>

#include "data/text/byte_source.h"
#include "data/text/match_files.h"
#include "data/text/table_cells.h"
#include "data/text/table_reader.h"
#include "data/text/text.h"
#include "tests/support/errors.h"
#include "tests/support/gzip.h"
#include "tests/support/says.h"
#include "tests/support/temporary_folder.h"

namespace nystrom {
namespace {

using Texts = std::vector<std::string>;

class TableTexts : public FolderTest {
 protected:
  Texts texts(const std::string& name, const std::string& bytes, const std::string& column = "text",
              std::size_t piece_bytes = TextReader::default_piece_bytes) {
    write_bytes(folder_ / name, bytes);
    TextReader reader({folder_ / name}, {Documents::files, column}, piece_bytes);
    Texts found;
    bool inside = false;
    while (const auto piece = reader.next()) {
      if (!inside) found.emplace_back();
      found.back() += piece->text;
      inside = piece->continues;
    }
    statistics_ = reader.statistics();
    return found;
  }

  std::string error(const std::string& name, const std::string& bytes) {
    return error_in_dir([&] { texts(name, bytes); });
  }

  TextStatistics statistics_;
};

TEST_F(TableTexts, EveryFormatIsReadByItsColumn) {
  const std::string jsonl =
      "{\"id\": 1, \"text\": \"él\\nb\"}\n{\"text\": \"c\", \"meta\": {\"text\": 0}}\n";
  const Texts expected = {"él\nb", "c"};
  EXPECT_EQ(texts("a.jsonl", jsonl), expected);
  EXPECT_EQ(texts("a.ndjson", jsonl), expected);
  EXPECT_EQ(texts("B.JSONL", "\xEF\xBB\xBF" + jsonl), expected);
  EXPECT_EQ(texts("lines.json", jsonl), expected);
  EXPECT_EQ(texts("array.json", "\xEF\xBB\xBF[\n " + jsonl.substr(0, jsonl.find('\n')) +
                                    ",{\"text\":\r\n\"c\"}\n]\n"),
            expected);
  EXPECT_EQ(texts("columns.json", R"({"id": [1, 2], "text": ["él\nb", "c"]})"), expected);
  EXPECT_EQ(texts("a.csv", "id,text\r\n1,\"él\r\nb\"\r\n2,c\r\n"), expected);
  EXPECT_EQ(texts("crlf.jsonl", R"({"text": "a\r\nb"})"), Texts{"a\r\nb"});
  EXPECT_EQ(texts("crcrlf.csv", "text\r\r\nc\r\r\n"), Texts{"c"});
  EXPECT_EQ(texts("semicolons.csv", "id;text\n1;\"él\nb\"\n2;c\n"), expected);
  EXPECT_EQ(texts("comma.csv", "\"id, number\";text\n1;\"él\nb\"\n2;c\n"), expected);
  EXPECT_EQ(texts("a.tsv", "text\tid\nél b\t1\nc\t2\n"), (Texts{"él b", "c"}));
  EXPECT_EQ(texts("two.jsonl.gz", gzip("{\"text\": \"a\"}\n") + gzip("{\"text\": \"b\"}")),
            (Texts{"a", "b"}));
  EXPECT_EQ(texts("other.jsonl", "{\"body\": \"x\", \"text\": 1}", "body"), Texts{"x"});
  EXPECT_EQ(texts("numbers.jsonl", "{\"text\": 12}\n{\"text\": true}"), (Texts{"12", "true"}));
}

TEST_F(TableTexts, LongTextsComeInPieces) {
  const std::string text = "wörter und sätze, immer weiter";
  EXPECT_EQ(texts("a.jsonl", "{\"text\": \"" + text + "\"}", "text", 8), Texts{text});
  EXPECT_EQ(statistics_.documents, 1);
}

TEST_F(TableTexts, RowsWithoutATextAreLeftOutAndCounted) {
  EXPECT_EQ(texts("a.jsonl",
                  "{\"text\": null}\n\n{\"id\": 1}\n{\"text\": \" \"}\n{\"text\": \"x\"}\n"
                  "{\"text\": [\"y\"]}\n{\"text\": \"\\ud800\"}\nno json\n"),
            Texts{"x"});
  EXPECT_EQ(statistics_[SkipReason::no_text].count, 2);
  EXPECT_EQ(statistics_[SkipReason::empty].count, 1);
  EXPECT_EQ(statistics_[SkipReason::bad_row].count, 3);
  expect_says(statistics_[SkipReason::bad_row].first, "a.jsonl:6: 'text' is a list");
  EXPECT_GT(statistics_[SkipReason::bad_row].bytes, 0);
}

TEST_F(TableTexts, AColumnThatNoRowHasIsRefused) {
  const std::string remedy = "; name the column of the texts by data.text_column";
  EXPECT_EQ(
      error("a.jsonl", "{\"Text\": \"x\"}\n{\"Text\": \"y\"}\n"),
      "DIR/a.jsonl: there is no column 'text'; did you mean 'Text'?; columns: 'Text'" + remedy);
  EXPECT_EQ(error("a.csv", "Body,id\nx,1\n"),
            "DIR/a.csv: there is no column 'text'; columns: 'Body', 'id'" + remedy);
  EXPECT_EQ(error("null.jsonl", "{\"text\": null}\n"),
            "DIR/null.jsonl: no row has a text in its column 'text'" + remedy);
}

TEST_F(TableTexts, BrokenFilesAreRefused) {
  EXPECT_EQ(error("cut.json", "[{\"text\": \"a\"},\n{\"text\": \"b"),
            "DIR/cut.json:2: the file ends within the JSON value that begins in line 2; it is cut: "
            "copy it again");
  EXPECT_EQ(error("open.json", "[{\"text\": \"a\"}\n"),
            "DIR/open.json:2: the file ends within its array; it is cut: copy it again");
  EXPECT_EQ(error("comma.json", "[{\"text\": \"a\"} {\"text\": \"b\"}]"),
            "DIR/comma.json:1: expected a comma or the end of the array");
  EXPECT_EQ(error("after.json", "[{\"text\": \"a\"}] x"),
            "DIR/after.json:1: text after the end of the array; remove it");
  EXPECT_EQ(
      error("cr.jsonl", "{\"text\": \"a\"}\r{\"text\": \"b\"}\r"),
      "DIR/cr.jsonl: its lines end in CR alone; convert it, as with tr '\\r' '\\n' < old > new");
}

TEST_F(TableTexts, TablesAreCheckedBeforeAnythingElse) {
  write_bytes(folder_ / "a.jsonl", "{\"body\": \"x\"}\n");
  write_bytes(folder_ / "b.txt", "y");
  const std::string pattern = (folder_ / "*").string();
  EXPECT_THROW(match_texts(std::span(&pattern, 1), Documents::files), InputError);
  EXPECT_EQ(match_texts(std::span(&pattern, 1), {Documents::files, "body"}).size(), 2);
}

TEST_F(TableTexts, ParquetIsRefusedWithTheLineThatConvertsIt) {
  for (const char* name : {"rows.parquet", "rows.txt", "rows.csv"}) {
    write_bytes(folder_ / name, "PAR1\x15 and columns");
    const std::string file = (folder_ / name).string();
    const std::string expected = file +
                                 ": is a Parquet file, which this program does not read; convert "
                                 "it: python3 -c \"import pandas; pandas.read_parquet('" +
                                 file + "').to_json('" + file +
                                 ".jsonl', orient='records', lines=True, force_ascii=False)\", or "
                                 "give it to nystrom in Python";
    EXPECT_EQ(testing::message_of([&] { match_texts(std::span(&file, 1), Documents::files); }),
              expected);
    EXPECT_EQ(testing::message_of([&] { open_byte_source(file); }), expected);
  }
  EXPECT_EQ(
      testing::message_of([&] { open_byte_source("rows.arrow"); }).find("rows.arrow: is an Arrow"),
      0);
}

TEST_F(TableTexts, ABadValueOfAColumnCountsAsOneRow) {
  std::string column;
  for (int i = 0; i < 99; ++i) column += "\"text of a row\", ";
  EXPECT_EQ(texts("a.json", "{\"text\": [" + column + "[\"a list\"]]}").size(), 99U);
  EXPECT_LT(statistics_.unreadable_share(), 0.02);
}

TEST_F(TableTexts, FastaIsCountedAndAQuotationIsNot) {
  texts("a.txt", ">seq1 human\nACGTACGT\n");
  expect_says(statistics_.first_other_form, "looks like FASTA");
  texts("b.txt", "> so he said\nand left\n");
  EXPECT_EQ(statistics_.other_forms, 0);
}

TEST_F(TableTexts, AMentionAndADifferenceAreNoFastq) {
  for (const std::string text : {"@anna hi\nhello\n+1\nagree\n", "@@ -1 +1 @@\n-old\n+new\n ctx\n"})
    EXPECT_EQ(texts("a.txt", text), Texts{text});
}

TEST_F(TableTexts, JsonLinesUnderAnotherNameAreCounted) {
  texts("a.txt", "{\"text\": \"x\"}\n{\"text\": \"y\"}\n");
  EXPECT_EQ(statistics_.other_forms, 1);
  EXPECT_TRUE(statistics_.first_other_form.starts_with((folder_ / "a.txt").string() +
                                                       " looks like JSON Lines"));
  texts("b.txt", "{ a set of words }\n");
  EXPECT_EQ(statistics_.other_forms, 0);
}

// ---- Quotes of TSV ------------------------------------------------------------------------------

TEST_F(TableTexts, QuotesOfWritersAreRecognized) {
  const auto quotes = [&](const std::string& bytes, bool header = true) {
    write_bytes(folder_ / "a.tsv", bytes);
    return find_quotes(folder_ / "a.tsv", header);
  };
  const std::string three = "text\tlabel\n\"a\"\t1\n\"b\"\t0\n\"c\"\t0\n";
  EXPECT_EQ(quotes(three), Quotes::quoted);
  EXPECT_EQ(quotes(three, /*header=*/false), Quotes::plain);
  EXPECT_EQ(quotes("text\tlabel\nplain\t1\n"), Quotes::plain);
  EXPECT_EQ(quotes("text\tlabel\nsay \"hi\t1\n\"Yes\"\t0\n"), Quotes::plain);
  EXPECT_EQ(quotes("text\tlabel\n\"Yes\"\t0\nno\t1\n"), Quotes::plain);  // quotes of the text
  EXPECT_EQ(quotes("text\tlabel\n\"say \"\"hi\"\"\"\t1\nno\t0\n"), Quotes::quoted);
  EXPECT_EQ(quotes("text\tlabel\n\"two\nlines\"\t1\n"), Quotes::quoted);
  EXPECT_EQ(quotes("text\tlabel\n\"a\ttab\"\t1\n"), Quotes::quoted);
  EXPECT_EQ(quotes("text\n\"two\nlines\"\none\n"), Quotes::quoted);
  EXPECT_EQ(quotes("\"text\"\t\"label\"\n\"a\"\t1\n"), Quotes::quoted);
  EXPECT_EQ(quotes("text\tlabel\n\"say \"\"hi\"\"\"\t1\n6\" long\t0\n"), Quotes::mixed);
}

TEST_F(TableTexts, ObjectsOfPandasAreRefusedWithTheRemedy) {
  write_bytes(folder_ / "a.json", R"({"text": {"0": "x"}})");
  const auto reader = open_rows(folder_ / "a.json", TableFormat::json, true, {{"text"}});
  expect_says(input_error([&] { reader->next(); }),
              "'text' is an object, expected a text or a number; pandas writes rows by "
              "to_json(orient='records')");
}

// ---- Empty lines --------------------------------------------------------------------------------

/// The rows' only cells, and "bad: …" for bad rows.
Texts rows_of(const std::filesystem::path& file, TableFormat format, std::size_t columns = 1) {
  std::vector<WantedColumn> wanted = {{"text"}};
  if (columns > 1) wanted.push_back({"id"});
  const auto reader = open_rows(file, format, true, wanted, EmptyLines::are_rows);
  Texts rows;
  while (true) {
    try {
      const auto row = reader->next();
      if (!row) return rows;
      rows.push_back(*row->cells[0]);
    } catch (const BadRow& error) {
      rows.push_back(std::string(error.what()).substr(file.string().size()));
    }
  }
}

TEST_F(TableTexts, EmptyLinesAreRows) {
  const std::string empty = ": the line is empty; remove it, or complete the row";
  write_bytes(folder_ / "one.tsv", "text\na\n\nb\n");
  EXPECT_EQ(rows_of(folder_ / "one.tsv", TableFormat::tsv), (Texts{"a", "", "b"}));
  write_bytes(folder_ / "two.tsv", "text\tid\na\t1\n\n\nb\t2\n\n");
  EXPECT_EQ(rows_of(folder_ / "two.tsv", TableFormat::tsv, 2),
            (Texts{"a", ":3" + empty, ":4" + empty, "b"}));
  write_bytes(folder_ / "a.jsonl", "{\"text\": \"a\"}\n \n{\"text\": \"b\"}\n\n");
  EXPECT_EQ(rows_of(folder_ / "a.jsonl", TableFormat::jsonl), (Texts{"a", ":2" + empty, "b"}));
}

}  // namespace
}  // namespace nystrom
