"""The documentation runs: each console block's commands print what the page says, each Python block can be executed.

Blocks of type `sh` change a machine or need a cluster. Their commands of offpeak are parsed here;
docs/developers/tests.md says which tests run them.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from shown_output import pattern
from typer.exceptions import Exit, TyperException
from zygote import Zygote

from offpeak.errors import OffpeakError
from offpeak.settings.file import read_values
from offpeak.settings.table import SECTIONS
from offpeak.ui.manual import command_tree

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "tutorial" / "replay.ipynb"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def blocks(page: Path, language: str) -> list[str]:
    return blocks_of(page.read_text(), language)


def blocks_of(text: str, language: str) -> list[str]:
    return [block for name, block in BLOCK.findall(text) if name == language]


SHELL_COMMAND = re.compile(r"(?:^|\$\(|[;|&] ?|until |--rm |--network host )(offpeak [a-z].*)", re.MULTILINE)
MENTION = re.compile(r"`(offpeak [a-z][^`]*)`|^    (offpeak [a-z].*)$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMANDS = command_tree()


def words_of(line: str) -> list[str]:
    """Return the words of the first command of a line of shell."""
    words: list[str] = []
    scanner = shlex.shlex(line, posix=True, punctuation_chars=True)
    scanner.whitespace_split = True
    for word in scanner:
        if set(word) <= set("();<>|&"):
            # The number of a redirected file is a word of its own here.
            return words[:-1] if ">" in word and words[-1].isdigit() else words
        words.append(word)
    return words


def command_of(words: list[str]) -> tuple[str, ...] | None:
    """Return the longest known command that the words begin with, if any; of `energy|cost` the first."""
    path = [word.partition("|")[0] for word in words]
    return next((tuple(path[:length]) for length in (3, 2) if tuple(path[:length]) in COMMANDS), None)


def test_the_commands_of_the_pages_exist() -> None:
    assert [wrong for page in PAGES for wrong in wrong_commands(page)] == []


def wrong_commands(page: Path) -> Iterator[str]:
    """Yield each command of the page's blocks and sentences that offpeak would refuse."""
    place, text = page.relative_to(ROOT), page.read_text().replace("\\\n", " ")
    for line in (line for block in blocks_of(text, "sh") for line in SHELL_COMMAND.findall(block)):
        words = words_of(line)
        if (path := command_of(words)) is None:
            yield f"{place}: no such command: {line}"
            continue
        try:
            COMMANDS[path].make_context(" ".join(path), words[len(path) :])
        except Exit:
            if "--help" not in words:
                yield f"{place}: exits: {line}"
        except TyperException as error:
            yield f"{place}: {error}: {line}"
    for mention in (" ".join("".join(each).split()) for each in MENTION.findall(FENCED.sub("", text))):
        if page.name == "commands.md" or mention.startswith("offpeak is not a manager"):
            continue
        if (path := command_of(mention.split())) is None:
            yield f"{place}: no such command: {mention}"
            continue
        known = {name for option in COMMANDS[path].params for name in (*option.opts, *option.secondary_opts)}
        used = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", re.sub(r"'.*?'|\".*?\"", "", mention)))
        if unknown := used - known - {"--help", "-h", "--help-all"}:
            yield f"{place}: no such option: {', '.join(sorted(unknown))}: {mention}"


def test_the_settings_of_the_pages_are_accepted(tmp_path: Path) -> None:
    assert [wrong for page in PAGES for wrong in wrong_settings(page, tmp_path / "offpeak.toml")] == []


def wrong_settings(page: Path, file: Path) -> Iterator[str]:
    """Yield the reason for each block of settings that offpeak would refuse."""
    for block in blocks(page, "toml"):
        tables = tomllib.loads(block)
        # Each other kind of file is read by the test of its page.
        if tables.keys() <= set(SECTIONS) and page.name != "own-policy.md" and "v100" not in tables.get("hardware", {}):
            file.write_text(block)
            try:
                accepted = bool(read_values(file))
            except OffpeakError as error:
                yield f"{page.relative_to(ROOT)}: {error}: {block}"
            else:
                if not accepted:
                    yield f"{page.relative_to(ROOT)}: no setting is read: {block}"


def commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a block with the output that the page shows for it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def with_pages(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def readme_first() -> list[object]:
    """Return the pages with commands; `make test` runs those of the README."""
    pages = with_pages("console")
    return [pytest.param(page, marks=[pytest.mark.quick] if page == PAGES[0] else [], id=page.name) for page in pages]


@pytest.mark.parametrize("page", readme_first())
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, zygote: Zygote) -> None:
    for folder in ("sim_backend", "docs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    path = os.pathsep.join([str(zygote.command.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    for block in blocks(page, "console"):
        for command, shown in commands(block):
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=tmp_path,
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert re.fullmatch(pattern(shown), done.stdout), f"{command}\n{done.stdout}"


PUBLIC = re.compile(r"import offpeak|from offpeak\.(errors|plugin\.window_policy) import .*|(?!.*\boffpeak\b).*")


def test_guides_import_only_what_is_public() -> None:
    guides = [page for page in with_pages("python") if "developers" not in page.parts]
    code = "\n".join(block for page in guides for block in blocks(page, "python"))
    code += "\n".join("".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"])
    assert [line for line in code.splitlines() if "import " in line and not PUBLIC.fullmatch(line)] == []


@pytest.mark.parametrize("page", with_pages("python"), ids=lambda page: page.name)
def test_python_can_be_executed(page: Path) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {})


def test_links_lead_somewhere() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text())]
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []
