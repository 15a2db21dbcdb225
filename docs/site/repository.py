"""Brings files from outside docs/ into the site.

Links in the documents are those of the repository, so that they work there too. Pages such as
../CONTRIBUTING.md become pages of the site, and other files, such as ../examples/x.cpp, are copied
to source/. A link to a file that does not exist stays as it is, and mkdocs reports it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "documentation.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")


def place_of(path):
    """The place in the site of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else "source/" + path


def file_of(place):
    """The file of the repository that stands at a place in the site."""
    for path, page in PAGES.items():
        if page == place:
            return path
    return place.removeprefix("source/") if place.startswith("source/") else "docs/" + place


def linked_files(path):
    folder = posixpath.dirname(path)
    for match in LINK.finditer((ROOT / path).read_text()):
        linked = posixpath.normpath(posixpath.join(folder, match[2]))
        if (ROOT / linked).is_file():
            yield linked


def on_files(files, config):
    files.remove(files.get_file_from_path("README.md"))
    waiting = list(PAGES) + [file_of(file.src_uri) for file in files.documentation_pages()]
    while waiting:
        path = waiting.pop()
        if place_of(path) not in files.src_uris:
            files.append(File.generated(config, place_of(path), abs_src_path=str(ROOT / path)))
            waiting.append(path)
        elif path.endswith(".md"):
            waiting += (file for file in linked_files(path) if place_of(file) not in files.src_uris)
    return files


def on_page_markdown(markdown, page, config, files):
    place = page.file.src_uri
    folder = posixpath.dirname(file_of(place))

    def moved(match):
        linked = posixpath.normpath(posixpath.join(folder, match[2]))
        if not (ROOT / linked).is_file():
            return match[0]
        return match[1] + posixpath.relpath(place_of(linked), posixpath.dirname(place)) + match[3]

    return LINK.sub(moved, markdown)
