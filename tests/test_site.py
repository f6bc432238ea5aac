"""The documentation as a site: mkdocs builds it, and warns of nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=repository, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there_and_the_contents_lead_to_it(repository: Path, site: Path) -> None:
    index = (site / "contents.html").read_text()
    pages = [page.relative_to(repository / "docs") for page in (repository / "docs").rglob("*.md")]
    assert len(pages) > 80
    for page in pages:
        if page.as_posix() != "README.md":
            assert (site / page.with_suffix(".html")).is_file(), page
            assert page.with_suffix(".html").as_posix() in index, page


def test_what_lies_outside_comes_along(site: Path) -> None:
    slurm = (site / "how-to" / "slurm.html").read_text()
    targets = re.findall(r'href="(\.\./repository/[^"]+)"', slurm)
    assert "../repository/deploy/systemd/offpeak.sudoers" in targets
    assert all((site / "how-to" / target).is_file() for target in targets)


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css)[^"]*)"', page) == []


def test_the_changelog_is_a_page_whose_links_work(site: Path) -> None:
    changelog = (site / "about" / "changelog.html").read_text()
    targets = re.findall(r'href="(\.\./how-to/[^"#]+)', changelog)
    assert "../how-to/slurm.html" in targets
    assert all((site / "about" / target).is_file() for target in targets)
