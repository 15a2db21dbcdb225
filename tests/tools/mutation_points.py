"""Finds the places of a C++ source that a mutant can change, and writes the source with chosen
mutants switchable at run time.

Five kinds of mutants:

    comparison   a < b          becomes  a <= b, and so on
    one_off      3              becomes  4 or 2
    negation     if (c)         becomes  if (!c), also of while
    statement    f(x);          is left out
    arguments    f(a, b)        becomes  f(b, a), two neighbours of any call

The lexer relies on clang-format: a `<` with blanks on both sides compares, any other opens a
template's arguments. A place that was misread does not compile, and mutate.py leaves it out."""

import random
import re
from dataclasses import dataclass

SWITCH = "\0"  # in a point's code: the place of the test whether its mutant is on
# Maximum length of a point in characters. A longer one is half a function, and any test notices its
# removal.
LONGEST = 200
KINDS = ("comparison", "one_off", "negation", "statement", "arguments")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
# Tokens that end an operand of a comparison. Operands of equality may contain `<` and similar
# operators.
OPERAND_ENDS = ASSIGNMENTS | set(", ; && || ? : <=> return throw case co_return".split())
NO_EXPRESSION = set(
    "return if for while switch case default do else using const static auto constexpr throw goto "
    "struct class enum template typename namespace try catch public private static_assert friend "
    "thread_local inline extern operator typedef explicit virtual bool int double float char "
    "unsigned".split()
)
NO_CALLEE = set(
    "if for while switch return sizeof alignof decltype catch operator noexcept requires case".split()
)
# `require` fails only when the program itself has an error. No test notices its removal or its
# message, so only its condition is mutated.
INTERNAL_CHECK = "require"
# Statements whose removal has no effect: they save time or memory, or check a condition.
WITHOUT_EFFECT = re.compile(r"\breserve\(|\bshrink_to_fit\(|prefetch\(|^" + INTERNAL_CHECK + r"\(")

TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
      | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)")
      | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
      | (?P<sign><=>|<<=|>>=|->\*|\.\.\.|::|->
        |\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\w\s])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Point:
    """A change of source[start:end] from `old` to `new`; `code` is both, with SWITCH between
    them."""

    kind: str
    start: int
    end: int
    old: str
    new: str
    code: str


def tokenize(source: str) -> list[Token]:
    tokens, place = [], 0
    while place < len(source):
        match = TOKEN.match(source, place)
        if not match:
            raise ValueError(f"offset {place}: no token of C++")
        if match.lastgroup != "blank":
            kind = "raw" if match["raw"] else match.lastgroup
            tokens.append(Token(kind, match[0], place, match.end()))
        place = match.end()
    return tokens


class Source:
    """A source's tokens with their brackets matched."""

    def __init__(self, source: str):
        self.source = source
        self.tokens = tokenize(source)
        self.partner: dict[int, int] = {}
        self.enclosing: list[int] = []  # for each token its innermost open bracket, or -1
        self.in_function: list[bool] = []
        open_brackets: list[tuple[int, bool]] = []
        for i, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in ")]}" and open_brackets:
                opening, _ = open_brackets.pop()
                self.partner[opening], self.partner[i] = i, opening
            self.enclosing.append(open_brackets[-1][0] if open_brackets else -1)
            inside = bool(open_brackets) and open_brackets[-1][1]
            self.in_function.append(inside)
            if token.kind == "sign" and token.text in "([{":
                open_brackets.append((i, inside or (token.text == "{" and self._opens_body(i))))

    def _opens_body(self, brace: int) -> bool:
        opens = ") } ] const noexcept override mutable else do try"
        return brace > 0 and self.text(brace - 1) in opens.split()

    def text(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def flat(self, first: int, last: int) -> str:
        """Tokens first to last (included) in one line, blanks as they were, without comments."""
        parts = []
        for i in range(first, last + 1):
            if parts and self.tokens[i - 1].end < self.tokens[i].start:
                parts.append(" ")
            parts.append(self.tokens[i].text)
        return "".join(parts)

    def point(self, kind: str, first: int, last: int, new: str, code: str) -> Point | None:
        start, end = self.tokens[first].start, self.tokens[last].end
        one_line = "\n#" not in self.source[start:end] and all(
            token.kind != "raw" for token in self.tokens[first : last + 1]
        )
        if not one_line or end - start > LONGEST:
            return None
        return Point(kind, start, end, self.flat(first, last), new, code)

    def is_spaced(self, i: int) -> bool:
        return (
            self.source[self.tokens[i].start - 1].isspace()
            and self.source[self.tokens[i].end : self.tokens[i].end + 1].isspace()
        )

    def ends_operand(self, i: int, operator: str) -> bool:
        text = self.text(i)
        if text in OPERAND_ENDS:
            return True
        if text in ("&", "|", "^", "<", ">") and self.is_spaced(i):
            return text in "&|^" or operator not in ("==", "!=")
        if text in ("==", "!="):
            return True
        return text in ("<=", ">=") and operator not in ("==", "!=")

    def operand_start(self, i: int) -> int:
        """The first token of the operand that ends before the operator at i."""
        place = i
        while place - 1 > self.enclosing[i]:
            before = place - 1
            if self.text(before) in ")]}":
                place = self.partner.get(before, before)
            elif self.ends_operand(before, self.text(i)):
                return place
            else:
                place = before
        return place

    def operand_end(self, i: int) -> int:
        """The last token of the operand that begins behind the operator at i."""
        place = i
        while place + 1 < len(self.tokens):
            after = self.text(place + 1)
            if after in ")]}" or self.ends_operand(place + 1, self.text(i)):
                return place
            place = self.partner.get(place + 1, place + 1) if after in "([{" else place + 1
        return place

    def comparison(self, i: int, _: random.Random) -> Point | None:
        operator = self.text(i)
        if operator not in COMPARISONS or self.text(i - 1) == "operator" or not self.is_spaced(i):
            return None
        first, last = self.operand_start(i), self.operand_end(i)
        if first >= i or last <= i:
            return None
        left, right = self.flat(first, i - 1), self.flat(i + 1, last)
        old, new = f"{left} {operator} {right}", f"{left} {COMPARISONS[operator]} {right}"
        return self.point("comparison", first, last, new, f"({SWITCH} ? ({new}) : ({old}))")

    def one_off(self, i: int, chance: random.Random) -> Point | None:
        token = self.tokens[i]
        if token.kind != "number" or not re.fullmatch(
            r"(0[xX][\da-fA-F']+|\d[\d']*)[uUlLzZ]*", token.text
        ):
            return None
        sign = "+" if re.fullmatch(r"0[uUlLzZ]*", token.text) or chance.random() < 0.5 else "-"
        digits = token.text.replace("'", "").rstrip("uUlLzZ").lower()
        prefix, base, form = "", 10, "d"
        if digits.startswith("0x"):
            prefix, base, form = "0x", 16, "x"
        elif len(digits) > 1 and digits[0] == "0":
            prefix, base, form = "0", 8, "o"
        new = prefix + format(int(digits, base) + (1 if sign == "+" else -1), form)
        return self.point("one_off", i, i, new, f"({token.text} {sign} {SWITCH})")

    def negation(self, i: int, _: random.Random) -> Point | None:
        if (
            self.text(i) not in ("if", "while")
            or self.text(i + 1) != "("
            or i + 1 not in self.partner
        ):
            return None
        first, last = i + 2, self.partner[i + 1] - 1
        at_top = [self.text(k) for k in range(first, last + 1) if self.enclosing[k] == i + 1]
        if first > last or ";" in at_top or "=" in at_top:
            return None
        condition = self.flat(first, last)
        code = f"({SWITCH} != static_cast<bool>({condition}))"
        return self.point("negation", first, last, f"!({condition})", code)

    def statement(self, i: int, _: random.Random) -> Point | None:
        token = self.tokens[i]
        if token.text in NO_EXPRESSION or not (
            token.kind == "word" or token.text in ("++", "--", "*")
        ):
            return None
        if self.text(self.enclosing[i]) != "{" or not self.begins_statement(i):
            return None
        last = self.statement_end(i)
        if last is None or self.is_declaration(i, last):
            return None
        text = self.flat(i, last)
        if WITHOUT_EFFECT.search(text):
            return None
        return self.point("statement", i, last, "", f"{{ if (!{SWITCH}) {{ {text} }} }}")

    def begins_statement(self, i: int) -> bool:
        before = self.text(i - 1)
        if before == ")":
            return self.text(self.partner.get(i - 1, 0) - 1) in ("if", "for", "while", "constexpr")
        return before in (";", "{", "}", "else", "do")

    def statement_end(self, i: int) -> int | None:
        place = i
        while place < len(self.tokens) and self.text(place) != ";":
            if self.text(place) in ")]}":
                return None
            place = self.partner.get(place, place) + 1 if self.text(place) in "([{" else place + 1
        return place

    def is_declaration(self, first: int, last: int) -> bool:
        """Whether two names follow each other, as type and variable do."""
        for i in range(first + 1, last):
            if self.text(i) in ASSIGNMENTS or self.text(i) in "([{":
                return False
            if self.tokens[i].kind == "word" and (
                self.tokens[i - 1].kind == "word" or self.text(i - 1) in (">", ">>", "*", "&")
            ):
                return True
        return False

    def arguments(self, i: int, chance: random.Random) -> Point | None:
        if (
            self.text(i) != "("
            or i not in self.partner
            or self.tokens[i - 1].kind != "word"
            or self.text(i - 1) in NO_CALLEE
        ):
            return None
        if self.in_internal_check(i):
            return None
        inside = [k for k in range(i + 1, self.partner[i]) if self.enclosing[k] == i]
        commas = [k for k in inside if self.text(k) == ","]
        first = self.callee_start(i)
        if not commas or first is None:
            return None
        bounds = [i, *commas, self.partner[i]]
        parts = [self.flat(begin + 1, end - 1) for begin, end in zip(bounds, bounds[1:])]
        k = chance.randrange(len(commas))
        swapped = [*parts[:k], parts[k + 1], parts[k], *parts[k + 2 :]]
        if swapped == parts:
            return None
        callee = self.flat(first, i - 1)
        old, new = f"{callee}({', '.join(parts)})", f"{callee}({', '.join(swapped)})"
        return self.point("arguments", first, self.partner[i], new, f"({SWITCH} ? {new} : {old})")

    def in_internal_check(self, i: int) -> bool:
        while i >= 0:
            if self.text(i - 1) == INTERNAL_CHECK:
                return True
            i = self.enclosing[i]
        return False

    def callee_start(self, call: int) -> int | None:
        """The first token of `a.b(c)->d` before the bracket at `call`; none where a type before it
        makes this a declaration."""
        place = call - 1
        while self.text(place - 1) in (".", "->", "::"):
            place -= 2
            if self.text(place) in ")]":
                place = self.partner[place]
                if self.tokens[place - 1].kind == "word" and self.text(place - 1) not in NO_CALLEE:
                    place -= 1
            elif self.tokens[place].kind != "word":
                return None
        before = self.tokens[place - 1]
        if before.text in ("new", ">", "*", "&", "~") and not self.is_spaced(place - 1):
            return None
        declares = before.kind == "word" and before.text not in ("return", "else", "do", "throw")
        return None if declares else place


def find_points(source: str, seed: str) -> dict[str, list[Point]]:
    """All points of a source by kind, in its order. The seed decides between 3 + 1 and 3 - 1, and
    which arguments are swapped."""
    chance = random.Random(seed)
    parsed = Source(source)
    points: dict[str, list[Point]] = {kind: [] for kind in KINDS}
    for i in range(len(parsed.tokens)):
        if not parsed.in_function[i]:
            continue
        for kind in KINDS:
            point = getattr(parsed, kind)(i, chance)
            if point:
                points[kind].append(point)
    return points


def may_matter(point: Point) -> bool:
    """False for swapped arguments whose order has no meaning."""
    return point.kind != "arguments" or not re.match(r"(std::)?(min|max)(<[^>]*>)?\(", point.old)


def with_mutants(source: str, path: str, mutants: dict[int, Point]) -> str:
    """The source with these numbered mutants in it, none of which overlap. Every line keeps its
    number."""
    parts, place = [f'#include "core/mutants.h"\n#line 1 "{path}"\n'], 0
    for number, point in sorted(mutants.items(), key=lambda item: item[1].start):
        parts.append(source[place : point.start])
        parts.append(point.code.replace(SWITCH, f"NYSTROM_MUTANT({number})"))
        parts.append("\n" * source.count("\n", point.start, point.end))
        place = point.end
    return "".join([*parts, source[place:]])
