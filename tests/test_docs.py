"""The documentation runs: each console block's commands print what the page says, each Python block can be executed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from shown_output import pattern
from zygote import Zygote

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a block with the output that the page shows for it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def with_pages(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


def readme_first() -> list[object]:
    """Return the pages with commands; `make test` runs those of the README."""
    pages = with_pages("console")
    return [
        pytest.param(page, marks=[pytest.mark.thorough] if page != PAGES[0] else [], id=page.name) for page in pages
    ]


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


@pytest.mark.parametrize("page", with_pages("python"), ids=lambda page: page.name)
def test_python_can_be_executed(page: Path) -> None:
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "contents.md").read_text()
    for page in PAGES[1:]:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name in {"README.md", "contents.md"} or f"({name})" in index, name


def test_the_readme_shows_the_recording_of_the_demo_before_what_it_saves() -> None:
    text = (ROOT / "README.md").read_text()
    image = text.index("](docs/images/demo.webp)")
    assert text.index("**offpeak runs") < image < text.index("## What it saves")
    check_recording(ROOT / "docs" / "images" / "demo.webp", least=30)


def check_recording(file: Path, *, least: int) -> None:
    assert file.stat().st_size <= 2_000_000
    with Image.open(file) as recording:
        assert recording.n_frames >= least
        assert 800 <= recording.width <= 1200


@pytest.mark.thorough
def test_the_demo_can_be_recorded(tmp_path: Path) -> None:
    file = tmp_path / "demo.webp"
    subprocess.run([sys.executable, "docs/recording.py", file, "20"], cwd=ROOT, check=True, timeout=300)
    # Pictures that are equal are one.
    check_recording(file, least=10)
