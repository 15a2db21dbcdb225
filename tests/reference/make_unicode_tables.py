"""Prints data/tokenizers/pipeline/unicode_tables.inc: which characters Hugging Face's tokenizers
take for punctuation, marks and controls.

usage: make_unicode_tables.py > data/tokenizers/pipeline/unicode_tables.inc

Its tables are of Unicode 8 and 11, and everyone's vocabularies were made with them, so they are
asked for character by character."""

import unicodedata

from tokenizers import normalizers, pre_tokenizers

CHARACTERS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def print_table(name, comment, holds):
    ranges = []
    for c in CHARACTERS:
        if not holds(chr(c)):
            continue
        if ranges and ranges[-1][1] + 1 == c:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(f"/// {comment}\nconstexpr CharacterRange {name}[] = {{")
    line = "   "
    for first, last in ranges:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line + item) > 138:
            print(line)
            line = "   "
        line += item
    print(line.rstrip(",") + "};\n")


def main():
    words, accents = pre_tokenizers.BertPreTokenizer(), normalizers.StripAccents()
    marks = normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    )
    clean = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
    )
    compatible = normalizers.NFKD()
    print("// Written by tests/reference/make_unicode_tables.py.\n// clang-format off")
    print_table(
        "punctuation",
        "Punctuation, without ASCII's.",
        lambda c: len(words.pre_tokenize_str(f"a{c}b")) == 3,
    )
    print_table(
        "nonspacing_marks",
        "What BERT's normalizer takes for accents.",
        lambda c: marks.normalize_str(c) == "",
    )
    print_table(
        "marks",
        "What StripAccents removes; other characters have no combining class.",
        lambda c: accents.normalize_str(c) == "",
    )
    print_table(
        "controls",
        "What BERT's normalizer takes for control characters.",
        lambda c: c != "\ufffd" and clean.normalize_str(c) == "",
    )
    print_table(
        "undecomposed",
        "Characters whose decomposition came later.",
        lambda c: unicodedata.normalize("NFKD", c) != c and compatible.normalize_str(c) == c,
    )
    print("// clang-format on")


if __name__ == "__main__":
    main()
