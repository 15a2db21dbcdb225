"""The blocks of code, the commands and the names in the texts of the repository."""

import re
from dataclasses import dataclass

from conftest import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "config.md"}),  # it is generated
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@dataclass(frozen=True)
class Code:
    """A block, or a piece of a line between backticks."""

    page: str
    line: int  # from 1
    kind: str  # the language of a fenced block; "indented", "inline", or "cell" in a table
    text: str
    comment: str = ""  # behind a command

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def codes(page: str) -> list[Code]:
    """All code of a page, in its order."""
    found, block, kind = [], [], ""
    lines = [*(ROOT / page).read_text().split("\n"), "end"]
    for number, line in enumerate(lines, 1):
        if kind and kind != "indented":  # in a fenced block
            if line.strip() == "```":
                found.append(Code(page, number - len(block), kind, "\n".join(block)))
                kind, block = "", []
            else:
                block.append(line)
            continue
        if kind == "indented" and line and not line.startswith("    "):
            text = re.sub("(?m)^ {4}", "", "\n".join(block).rstrip())
            found.append(Code(page, number - len(block), kind, text))
            kind, block = "", []
        if fence := re.match(r" *```(\w*)$", line):
            kind = fence[1] or "text"
        elif kind == "indented" or (line.startswith("    ") and not lines[number - 2].strip()):
            kind = "indented"
            block.append(line)
        else:
            kind_here = "cell" if line.lstrip().startswith("|") else "inline"
            pieces = re.findall(r"`([^`]+)`", line)
            found += [Code(page, number, kind_here, text) for text in pieces]
    return found


def commands(block: Code) -> list[Code]:
    """The command lines of a block; a backslash, &&, or an open ( or ' joins them."""
    found, line, text = [], 0, ""
    for number, part in enumerate(block.text.split("\n"), block.line):
        line, text = (
            (line, f"{text} {part.strip()}".replace("\n ", "\n"))
            if text
            else (number, part.strip())
        )
        text, *comments = re.split(r"(?:^|\s+)#(?:!|SBATCH|\s)", text, maxsplit=1)
        if text.endswith("\\"):
            text = text[:-1].rstrip()
        elif text.count("(") > text.count(")") or text.count("'") % 2:
            text += "\n"
        elif text and not text.endswith("&&"):
            found.append(Code(block.page, line, block.kind, text, "".join(comments)))
            text = ""
    return found
