"""Makes the pages of the C++ API from the public headers, a page a room.

A header's comments are plain text above declarations. A page shows each declaration as it stands
in the header, below its comment.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["core", "autograd", "nn", "data", "train"]
INTERNAL = {"core/cpu", "core/cuda", "train/cli"}


def as_markdown(text):
    """Plain text, in which only `code` means more than itself."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part
        if part.startswith("`")
        else re.sub(r"([\\*_\[\]])", r"\\\1", part).replace("<", "&lt;")
        for part in parts
    )


def declarations(lines):
    """Yields (section, None) and (comment, declarations) in the order of the header.

    One comment may stand above several declarations. They end at a blank line or the next comment.
    """
    comment, code = [], []
    for line in [*lines, ""]:
        text = "\n".join(code)
        ends = not line or line.startswith(("///", "// --", "}"))
        if code and (not ends or text.count("{") > text.count("}")):
            code.append(line)
            continue
        if code:
            yield "\n".join(comment), text
            comment, code = [], []
        if section := re.match(r"// -+ (.*?) -+$", line):
            yield section[1], None
        elif line.startswith("///"):
            comment.append(line[4:])
        elif comment and line:
            code.append(line)


def name_of(declaration):
    """The declared name: of a type, a function, or a constant."""
    text = re.sub(r"^template <.*>\n", "", declaration)
    for pattern in [
        r"^(?:enum class|class|struct) (\w+)",
        r"^using (\w+)",
        r"^(?:CONVERTING_)?KERNEL\((\w+)",
        r"(operator\S+?|\w+)\(",
        r"(\w+)(?: =|\{|;)",
    ]:
        if found := re.search(pattern, text):
            return found[1]
    raise ValueError(f"no name in the declaration: {declaration}")


def header_page(path):
    lines = (ROOT / path).read_text().splitlines()
    begin = lines.index("#pragma once")
    intro = "\n".join(line[3:] for line in lines[:begin])
    page, last = [f"## {path}", as_markdown(intro)], None
    for text, code in declarations(lines[begin + 1 :]):
        if code is None:
            page.append(f"**{as_markdown(text)}**")
            continue
        if name_of(code) != last:  # overloads follow each other
            page.append(f"### `{name_of(code)}`")
        last = name_of(code)
        page += [as_markdown(text), f"```cpp\n{code}\n```"]
    return "\n\n".join(page)


def on_files(files, config):
    folders = {}
    for room in ROOMS:
        for header in sorted((ROOT / room).rglob("*.h")):
            path = header.relative_to(ROOT)
            folders.setdefault(str(path.parent), []).append(str(path))
    index = [
        "# C++ API",
        "The public headers, room by room. Libraries and examples: [C++ library](../library.md).",
    ]
    for folder, headers in folders.items():
        if folder in INTERNAL:
            continue
        name = folder.replace("/", "-") + ".md"
        page = [f"# {folder}"] + [header_page(header) for header in headers]
        files.append(File.generated(config, f"api/{name}", content="\n\n".join(page)))
        index.append(f"## [{folder}]({name})")
        for header in headers:
            first = (ROOT / header).read_text().split("\n#pragma")[0].replace("\n// ", " ")[3:]
            index.append(f"- `{header}`: " + as_markdown(first.split(". ")[0].rstrip(".")))
    files.append(File.generated(config, "api/index.md", content="\n\n".join(index)))
    return files
