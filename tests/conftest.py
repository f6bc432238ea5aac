"""Fixtures that every test may ask for."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]
SCENES_BEGUN_AT = 0.8
"""When this share of the other files is begun, all files of scenes are."""

# The real servers that tests talk to; they import each other from that folder.
sys.path.append(str(REPOSITORY / "tests" / "peers"))
pytest_plugins = [
    "chromium_fixture",
    "ipmi_fixtures",
    "postgres_server",
    "slurm_fixtures",
    "powered_fixtures",
    "zygote_fixture",
    "booted_head",
]

# The first example of a test may have to load or compile a kernel. What CI says of a commit must not depend on chance.
settings.register_profile("offpeak", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("offpeak")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files of scenes, which mostly wait, among those that keep a processor busy; the longest come first."""
    tests = Counter(item.path for item in items)
    scenes = [path for path, _ in tests.most_common() if path.parent.name == "e2e"]
    others = [path for path in tests if path not in scenes]
    place: dict[Path, float] = {path: at for at, path in enumerate(others)}
    place |= {path: at * SCENES_BEGUN_AT * len(others) / len(scenes) for at, path in enumerate(scenes)}
    items.sort(key=lambda item: place[item.path])


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder that holds pyproject.toml."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: logs and prices too large to bundle. Skips where it is absent."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder `shared` beside the repository")
    return folder


@pytest.fixture(scope="session")
def golden() -> Callable[[str, str], None]:
    """Compares a text with the file of that name in tests/golden; with UPDATE_GOLDEN=1 it writes the file instead."""

    def compare(name: str, text: str) -> None:
        file = REPOSITORY / "tests" / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session", autouse=True)
def hear_ctrl_c() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would the commands that the tests start from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
