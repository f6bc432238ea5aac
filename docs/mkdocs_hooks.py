"""Hooks of mkdocs: the order of pages is that of docs/contents.md, and files outside the documentation come along.

Run by `make docs`.
"""

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
SHELF = re.compile(r"^## (.+)$")
SECTION = re.compile(r"^### (.+)$")
PAGE = re.compile(r"^- \[(.+?)\]\((\S+?\.md)\)")
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
OUTSIDE = "repository"
ABOUT = {name: f"about/{name.lower()}" for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
"""Files of the repository that are pages of the site."""


def on_config(config: Any) -> Any:
    """Return the settings with the shelves, sections and pages of docs/contents.md as navigation."""
    nav: list[dict[str, Any]] = [{"offpeak": ["README.md", *ABOUT.values(), {"All pages": "contents.md"}]}]
    sections: list[dict[str, Any]] = []
    pages: list[dict[str, str]] = []
    for line in (ROOT / "docs" / "contents.md").read_text(encoding="utf-8").splitlines():
        if shelf := SHELF.match(line):
            sections = []
            nav.append({shelf[1]: sections})
        elif section := SECTION.match(line):
            pages = []
            sections.append({section[1]: pages})
        elif page := PAGE.match(line):
            pages.append({page[1]: page[2]})
    config.nav = nav
    return config


def on_files(files: Files, config: Any) -> Files:
    """Return the files of the site with those outside docs/ that are pages of it, or that pages link to."""
    for name, page in ABOUT.items():
        text = LINK.sub(lambda found: relpath(found[1], "docs/about"), (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text))
    for page in files.documentation_pages():
        for target in LINK.findall(page.content_string):
            path = _outside(page.src_uri, target)
            copy = f"{OUTSIDE}/{path}{_as_text(path)}"
            if path and path not in ABOUT and (ROOT / path).is_file() and not files.get_file_from_path(copy):
                files.append(File.generated(config, copy, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with its links to the outside as links to the copies."""

    def link(found: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, found[1])
        if not path:
            return found[1]
        copy = ABOUT.get(path) or f"{OUTSIDE}/{path}{_as_text(path)}"
        return relpath(copy, dirname(page.file.src_uri) or ".")

    return LINK.sub(link, markdown)


def _outside(page: str, target: str) -> str:
    """Return the path in the repository of what lies outside docs/, "" of what does not."""
    path = normpath(f"docs/{dirname(page)}/{target}")
    return "" if path.startswith("docs/") else path


def _as_text(path: str) -> str:
    # A browser shows what it knows, and a page of ours must not become one of the site.
    return ".txt" if path.endswith(".md") or "." not in Path(path).name else ""
