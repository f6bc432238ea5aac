"""Machine code is made by one process; others that need it at the same time wait and take it."""

import os
import subprocess
import sys
from pathlib import Path

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
