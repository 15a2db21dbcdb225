"""Writes tests/fixtures/tokenizers/patterns.json: what regular expressions match in Hugging Face's
tokenizers.

usage: make_pattern_fixtures.py

For each expression and text: the matches that are not empty, and the text with "|" in the place of
every match, empty ones included. For each invalid expression: Oniguruma's message. All characters
are of Unicode 14 or older, which every supported Oniguruma knows, and [:punct:] is left out: it
holds ASCII's symbols from Oniguruma 6.9.9 on."""

import json

from tokenizers import Regex
from tokenizers import decoders, pre_tokenizers

from check_tokenizer_parts import BLOOM, CL100K, O200K, QWEN
from common import ROOT

MIXED = "Don't  they'LL\u2019s 12345 caf\u00e9 \u6771\u4eac\n\n \u00a0x\u0301!? \U0001f642 "
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASES = [
    # Empty matches
    ("x*", "xaxx"),
    ("x*|b", "b"),
    ("a||b", "b"),
    ("x|(?=b)", "xabab"),
    ("(?=a)", "baa"),
    ("^", "ab\nc"),
    ("$", "ab\nc"),
    ("", ""),
    ("", "\u00e9a"),
    (r"\Ga|(?=a)", "baa"),
    (r"(?:a*)*", "aab"),
    (r"(a*)+b", "aab"),
    # Kinds of characters
    (r"\w+", "a_1-\u00e9\u0663\u2177 \u2460\u24d0\u203fx\u0301\u200d\u200c\u00b2\u00bd"),
    (r"\W", "\u00b2\u2460\u200d"),
    (r"\b", "ab c"),
    (r"\b\u24d0\b|\b\u0663\b", "\u24d0 \u0663 a\u0663"),
    (r"a\B", "aa a"),
    (r"\d+", "1\u0663\u00b2"),
    (r"\s+", "a \u0085\u00a0\u3000\u200b b"),
    (r"\h+", "12fg"),
    (r"\R", "a\r\nb\n"),
    (r"\X", "e\u0301x"),
    (r"\y\w+\y", "ab cd"),
    (r"\O", "\n"),
    (r"\N+", "a\nb"),
    (".", "a\nb"),
    ("(?m:.)+", "a\nb"),
    (r"[[:alpha:]]+", "a\u00e91"),
    (r"\p{P}+", "a$+!-"),
    (r"\p{Lu}\P{L}\p{^N}", "A1bB22"),
    (r"\p{Alpha}+", "a\u00e91"),
    (r"\p{Emoji}", "a1\U0001f600"),
    (r"\p{L}\p{M}*", "e\u0301a"),
    # Scripts
    (r"\p{Han}+", "a\u6771\u4eacb"),
    ("[\\p{Hiragana}\\p{Katakana}\u30fc]+", "\u30ab\u30ca\u304b\u306a\u30fc\u6f22"),
    (r"\p{Greek}|\p{Cyrillic}|\p{Arabic}", "\u03b1\u0436\u0628a"),
    (r"\P{Latin}+", "ab\u0436 c"),
    # Sets
    ("[a-z&&[^aeiou]]+", "abcdefg"),
    (r"[\p{L}&&[^\p{Lu}]]+", "abCd\u00c9\u00e9"),
    ("[^a&&b]", "ab"),
    ("[]a-]", "]-b"),
    ("[(a[bc]|]", "c|("),
    (r"[a-c\d]", "abz1\u0663"),
    ("[^a-c]", "abz\u00e9"),
    (r"\x{E9}|\u00e8|\x41|\n", "\u00e9\u00e8A\n"),
    (r"\x{110000}", "a"),
    # Repetitions
    ("a{2,3}b?", "aaaaab"),
    ("a{,2}b", "aaab"),
    ("a{2,1}", "aaaa"),
    ("a{x", "a{x"),
    ("a+?b*?c", "aabbc"),
    ("a++a|b", "aab"),
    ("(?>a|ab)c", "abc"),
    # Positions and case
    (r"(?<=ab)c|(?<!\d{2})x", "abc 12x 1x"),
    ("(?<=a|bc)d", "adbcdcd"),
    ("(?<=a+)b", "aabb"),
    (r"a\Kb", "abb"),
    (r"\Ga", "aab a"),
    ("^a|b$", "ab\nab"),
    (r"\Aa|b\z", "ab\nab"),
    (r"b\Z", "b\n"),
    (r"b(?<=\Kab)", "ab"),
    ("(?i)stra\u00dfe", "STRASSE Stra\u00dfe"),
    ("(?i:'s)", "'S '\u017f"),
    ("(?i)k\u00c9", "\u212a\u00e9"),
    # Groups
    (r"(a)\1", "aab"),
    (r"(?<n>a)\k<n>", "aab"),
    (r"(?<a>x|\(\g<a>\))", "((x))"),
    ("(?~ab)", "xxabx"),
    ("(*FAIL)|a", "a"),
    ("(?x) a b # c", "ab"),
    # Expressions of tokenizers
    (GPT2, MIXED),
    (CL100K, MIXED),
    (QWEN, MIXED),
    (O200K, MIXED),
    (BLOOM, MIXED),
]
INVALID = [
    "(a",
    "a)",
    "*a",
    r"\p{Foo}",
    r"\1",
    "[a",
    "[b-a]",
    "(?<n",
    "[[:foo:]]",
    r"\k<n>",
    "a{100001}",
    "(?z)",
    r"\u12",
    "(" * 60,
    r"(?<n>a)(b)\2",
]


def matches(expression, text):
    pieces = pre_tokenizers.Split(Regex(expression), "removed", invert=True).pre_tokenize_str(text)
    return [piece for piece, _ in pieces]


def message(expression):
    try:
        Regex(expression)
    except Exception as error:
        return str(error).removeprefix("Oniguruma error: ")
    raise ValueError(f"{expression} is valid")


def main():
    cases = [
        {
            "expression": e,
            "text": t,
            "matches": matches(e, t),
            "replaced": decoders.Replace(Regex(e), "|").decode([t]),
        }
        for e, t in CASES
    ]
    invalid = [{"expression": e, "message": message(e)} for e in INVALID]
    file = ROOT / "tests/fixtures/tokenizers/patterns.json"
    lines = lambda items: ",\n".join(map(json.dumps, items))
    file.write_text(f'{{"cases": [\n{lines(cases)}\n], "invalid": [\n{lines(invalid)}\n]}}\n')


if __name__ == "__main__":
    main()
