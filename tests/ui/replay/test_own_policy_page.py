"""The page on own policies runs: its package is installed as written, and each command takes its policy."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from offpeak.settings.agent import WINDOW_POLICIES
from offpeak.ui.command import run

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLUSTER = """
[node_types.thin]
count = 4
cores = 1
[node_types.fat]
count = 4
cores = 1
[partitions.all]
node_types = ["thin", "fat"]
"""


@pytest.fixture
def shortest(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let pip install the package of the page, and return the name of its policy."""
    blocks = BLOCK.findall((repository / "docs" / "how-to" / "own-policy.md").read_text())
    code, project = (next(text for language, text in blocks if language == wanted) for wanted in ("python", "toml"))
    ((name, place),) = tomllib.loads(project)["project"]["entry-points"][WINDOW_POLICIES].items()
    module = place.partition(":")[0]
    (tmp_path / module).mkdir()
    (tmp_path / module / f"{module}.py").write_text(code)
    (tmp_path / module / "pyproject.toml").write_text(project)
    # The packages of the tests have setuptools, and need no index.
    options = ("--quiet", "--no-index", "--no-build-isolation", "--target", tmp_path / "site")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, tmp_path / module], check=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, module, raising=False)
    return str(name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Forty jobs in four minutes, the long ones first, on a machine of eight nodes."""
    rows = (
        f"{job} {6 * job} -1 {600 - 10 * job} {1 + job % 4} -1 -1 {1 + job % 4} {600 - 10 * job} -1 1 1 1 1 1 1 -1 -1\n"
        for job in range(1, 41)
    )
    (tmp_path / "log.swf").write_text(
        "; MaxProcs: 8\n; UnixStartTime: 1672617600\n; TimeZoneString: UTC\n" + "".join(rows)
    )
    return tmp_path / "log.swf"


TARIFF = "on=90EUR/MWh,off=30EUR/MWh,hours=20:00-21:00,zone=UTC"


def waits_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, float]:
    """Return the mean wait [s] under each policy."""
    assert run(["simulate", *map(str, arguments), "--tariff", TARIFF, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    return {policy["policy"]: policy["mean_wait_s"] for policy in document["policies"]}


def test_a_replay_starts_short_jobs_first(capsys: pytest.CaptureFixture[str], log: Path, shortest: str) -> None:
    waits_s = waits_of(capsys, log, "--policy", f"easy,{shortest},fcfs+{shortest}")
    assert list(waits_s) == ["easy", shortest, f"fcfs+{shortest}"]
    assert waits_s[shortest] < 0.9 * waits_s["easy"]


def test_a_replay_on_several_node_types_too(
    capsys: pytest.CaptureFixture[str], log: Path, shortest: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    waits_s = waits_of(capsys, log, "--policy", f"easy,{shortest}", "--cluster", tmp_path / "cluster.toml")
    assert waits_s[shortest] < 0.9 * waits_s["easy"]
