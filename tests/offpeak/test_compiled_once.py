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
    return values[0] + values[1]
"""
ASKED = """\
import sys
import numpy as np
from summed import total
print("ready", flush=True)
sys.stdin.readline()
assert total(np.array([3.0, 1.0])) == 4.0
print(sum(total.dispatcher.stats.cache_misses.values()))
"""


def test_processes_of_several_clones_compile_once(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKED]
    requests = []
    for name in ("one", "same", "third"):
        clone = tmp_path / name
        clone.mkdir()
        (clone / "summed.py").write_text(SOURCE)
        paths = os.pathsep.join([str(repository), str(clone)])
        environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        requests.append(
            subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for request in requests:
        assert request.stdout is not None
        assert request.stdout.readline() == "ready\n"
    message = []
    for request in requests:
        assert request.stdin is not None
        request.stdin.write("go\n")
        request.stdin.flush()
    for request in requests:
        message.append(int(request.communicate(timeout=300)[0]))
    assert sorted(message) == [0, 0, 1]


RATED = """\
from offpeak.compiled import kernel
from offpeak.studies.rates import RATE

@kernel
def rated(value):
    return RATE * value
"""
UPGRADED = """\
import sys
from pathlib import Path
import offpeak.compiled
import offpeak.studies.rates
if sys.argv[1] == "upgrade":
    Path("offpeak/studies/rates.py").write_text("RATE = 7\\n")
from offpeak.studies.rated import rated
print(rated(1))
"""


def test_sources_that_change_under_a_process_leave_no_machine_code_for_others(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "offpeak/studies").mkdir(parents=True)
    for name in ("__init__", "compiled", "compiler"):
        (tmp_path / f"offpeak/{name}.py").write_bytes((repository / f"offpeak/{name}.py").read_bytes())
    (tmp_path / "offpeak/studies/__init__.py").touch()
    (tmp_path / "offpeak/studies/rates.py").write_text("RATE = 5\n")
    (tmp_path / "offpeak/studies/rated.py").write_text(RATED)
    # Python knows bytecode by the second of its source: an upgrade within that second would go unnoticed.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(word: str) -> str:
        command = [sys.executable, "-c", UPGRADED, word]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert [run("upgrade"), run("")] == ["5\n", "7\n"]


def test_another_folder_for_another_state_of_what_a_file_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    monkeypatch.setattr(compiled, "OWN_PACKAGES", ("rooms", "doors"))
    (tmp_path / "rooms").mkdir()
    files = {
        "kernels": "from rooms.rates import (\n    RATE,\n)\nfrom rooms import walls\n",
        "rooms/__init__": "",
        "rooms/rates": "import doors\nRATE = 1\n",
        "rooms/walls": "HIGH = 3\n",
        "rooms/roof": "RED = 5\n",
        "doors": "import neighbours\nWIDE = 2\n",
        "neighbours": "FAR = 7\n",
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
        assert (folder() == before) == (name in ("rooms/roof", "neighbours")), name
        (tmp_path / f"{name}.py").write_text(text)
        assert folder() == before


UNCACHED = """\
import numpy as np
from summed import total
assert total(np.array([3.0, 1.0])) == 4.0
"""


def test_kernels_run_where_no_machine_code_can_be_kept(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "summed.py").write_text(SOURCE)
    # A file in the place of each folder, because root may write into any.
    for name in ("__pycache__", "file"):
        (tmp_path / name).touch()
    paths, absent = os.pathsep.join([str(repository), str(tmp_path)]), str(tmp_path / "file" / "cache")
    folders = dict.fromkeys(["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"], absent)
    environment = {**os.environ, "PYTHONPATH": paths, **folders}
    subprocess.run([sys.executable, "-c", UNCACHED], env=environment, check=True)
