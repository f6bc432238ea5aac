"""Machine code is made by one process, once for each state of a kernel's file and of what that file imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from offpeak import compiled

SOURCE = """\
from offpeak.compiled import kernel

@kernel
def total(values):
    found = 0.0
    for each in sorted(values):
        found += each
    return found
"""
ASKED = """\
import sys
import numpy as np
from summed import total
print("ready", flush=True)
sys.stdin.readline()
assert total(np.array([3.0, 1.0])) == 4.0
print(sum(total.stats.cache_misses.values()))
"""


@pytest.mark.thorough
def test_two_processes_compile_once(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "summed.py").write_text(SOURCE)
    paths = os.pathsep.join([str(repository), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", ASKED]
    asked = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for each in asked:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    said = []
    for each in asked:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in asked:
        said.append(int(each.communicate(timeout=120)[0]))
    assert sorted(said) == [0, 0, 1]


def test_another_folder_for_another_state_of_what_a_file_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    (tmp_path / "rooms").mkdir()
    files = {
        "kernels": "from rooms.rates import (\n    RATE,\n)\nfrom rooms import walls\n",
        "rooms/__init__": "",
        "rooms/rates": "import doors\nRATE = 1\n",
        "rooms/walls": "HIGH = 3\n",
        "rooms/roof": "RED = 5\n",
        "doors": "WIDE = 2\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)

    def folder() -> Path:
        compiled._text.cache_clear()
        compiled._imported.cache_clear()
        return compiled.cache_folder(tmp_path / "kernels.py")

    before = folder()
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text + "# changed\n")
        assert (folder() == before) == (name == "rooms/roof"), name
        (tmp_path / f"{name}.py").write_text(text)
        assert folder() == before
