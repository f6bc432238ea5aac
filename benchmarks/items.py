"""The tests of two commits compared: `python -m benchmarks.items BASE` names each test of BASE that is gone.

It also counts what `make test` runs and what it leaves to `make test-rest`; the two make up all tests.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COLLECT = ("-m", "pytest", "-o", "addopts=--import-mode=importlib", "--collect-only", "--quiet")


def collected(folder: Path, marks: str = "") -> set[str]:
    """Return the names of the tests under `folder` that the expression of marks selects."""
    command = [sys.executable, *COLLECT, "-m", marks]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return {line for line in done.stdout.splitlines() if "::" in line}


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Give a folder with the files of a commit of this repository, and the same folder `shared` beside it."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "repository"
        folder.mkdir()
        (folder.parent / "shared").symlink_to(Path.cwd().parent / "shared")
        files = subprocess.run(["git", "archive", commit], capture_output=True, check=True)
        subprocess.run(["tar", "--extract", "--directory", folder], input=files.stdout, check=True)
        yield folder


def main() -> int:
    """Print the counts and the tests that are gone; return 1 if there are any."""
    here = Path.cwd()
    everything, quick, rest = (collected(here, marks) for marks in ("", "not thorough", "thorough"))
    assert quick | rest == everything
    assert not quick & rest
    with checkout(sys.argv[1]) as before:
        gone = sorted(collected(before) - everything)
    print(f"{len(everything)} tests: {len(quick)} by `make test`, {len(rest)} by `make test-rest`; {len(gone)} gone")
    print(*gone, sep="\n")
    return bool(gone)


if __name__ == "__main__":
    sys.exit(main())
