"""Writes the comments of C++ headers as string constants, so that Python's docstrings are those.

    header_docs.py OUTPUT HEADER…

The comment of `f` becomes nystrom::doc::f, that of a member of `C` nystrom::doc::C_f. Of overloads
the first that has a comment counts.
"""

import re
import sys
from pathlib import Path


def name_of(declaration: str) -> str | None:
    """The name that a declaration declares; nothing for operators and constructors of templates."""
    found = re.match(r"(?:class|struct|enum class) (\w+)", declaration)
    if found:
        return found[1]
    if "operator" in declaration:
        return None
    found = re.search(r"(\w+)\s*[({;=]", declaration)
    return found[1] if found else None


def docs_of(header: Path) -> dict[str, str]:
    """The comments of a header by name. clang-format's indentation tells members from the rest."""
    docs: dict[str, str] = {}
    outer = ""
    comment: list[str] = []
    for line in header.read_text().splitlines():
        text = line.strip()
        if text.startswith("/// ") or text == "///":
            comment.append(text[4:])
            continue
        if text.startswith("template"):
            continue
        top = not line.startswith(" ")
        name = name_of(text)
        text, _, behind = text.partition("///< ")
        if name and (comment or behind):
            full = name if top or not outer else f"{outer}_{name}"
            docs.setdefault(full, "\n".join(comment) or behind)
        if top and re.match(r"(class|struct) \w+.*\{", text):
            outer = name_of(text) or ""
        elif top and text.startswith("}"):
            outer = ""
        comment = []
    return docs


def main() -> None:
    docs: dict[str, str] = {}
    for header in sys.argv[2:]:
        for name, text in docs_of(Path(header)).items():
            docs.setdefault(name, text)
    constants = (
        f'inline constexpr const char* {name} = R"DOC({text})DOC";' for name, text in docs.items()
    )
    lines = [
        "// Written by python/bindings/header_docs.py.",
        "#pragma once",
        "",
        "namespace nystrom::doc {",
        *constants,
        "}  // namespace nystrom::doc",
    ]
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
