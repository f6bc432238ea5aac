"""`offpeak simulate --capacity`: what it prints, and what it says to what cannot be."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.sim_backend.sample import SAMPLE_LOG

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]
SKETCH = Path(__file__).parents[3] / "offpeak" / "node_classes" / "sketch.toml"


def simulate(offpeak: Offpeak, *options: str | Path) -> Done:
    return offpeak("simulate", SAMPLE_LOG, "--policy", "easy", *options)


def test_a_second_table_says_what_sleeping_came_to(offpeak: Offpeak) -> None:
    done = simulate(offpeak, "--capacity", "always-on,timeout:5min", "--node-class", "sketch")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("easy timeout:5min")]
    assert len(rows) == 2
    assert "node class: sketch, idle 150 W, off 10 W" in done.stdout


def test_json_holds_the_figures_of_sleep(offpeak: Offpeak) -> None:
    done = simulate(offpeak, "--capacity", "always-on,two-level:80%", "--json")
    always_on, two_level = json.loads(done.stdout)["policies"]
    assert always_on["idle_saved_pct"] == 0
    assert 0 < two_level["idle_saved_pct"] < 100
    assert two_level["policy"] == "easy two-level:103"


def test_each_scheduling_policy_runs_with_each_capacity_policy(offpeak: Offpeak, tmp_path: Path) -> None:
    options = ("--policy", "fcfs", "--capacity", "always-on,timeout:5min", "--schedule", tmp_path / "s.csv", "--json")
    names = [policy["policy"] for policy in json.loads(simulate(offpeak, *options).stdout)["policies"]]
    assert names == ["easy", "fcfs", "easy timeout:5min", "fcfs timeout:5min"]
    assert {file.name for file in tmp_path.iterdir()} == {
        "s.easy.csv",
        "s.fcfs.csv",
        "s.easy-timeout-5min.csv",
        "s.fcfs-timeout-5min.csv",
    }


def test_without_capacities_there_is_no_second_table(offpeak: Offpeak) -> None:
    done = simulate(offpeak)
    assert "idle energy" not in done.stdout


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--capacity", "timout:5min"), "unknown capacity policy 'timout'", "timeout"),
        (("--capacity", "ols", "--sla", "0.5"), "--sla: capacity.sla: 0.5 is out of range", "1 to 1,000,000,000"),
        (("--capacity", "two-level:300"), "capacity policy 'two-level': 300 of 128 nodes", "0 to all"),
        (("--capacity", "timeout", "--node-class", "nothing"), "'nothing' is not a node class", "TOML"),
        (("--capacity", "timeout", "--node-class", "dune", "--depth", "standby"), "has no depth 'standby'", "off"),
        (("--capacity", "timeout", "--passes", "event"), "nodes that sleep need passes once a second", "--passes"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(offpeak: Offpeak, options: tuple[str, ...], message: str, hint: str) -> None:
    done = simulate(offpeak, *options)
    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert message in first
    assert second.startswith("  hint: ")
    assert hint in second


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ('power = "10W"', 'power = "160W"', "160W is more than the 150W of idle"),
        ('"180s"', '"0s"', "is not from 1s to 1d"),
        ('"180s"', '"-5s"', "off.leave.duration"),
        ("leave =", "# leave =", "off: leave is missing"),
    ],
)
def test_a_wrong_node_class_is_reported_with_file_and_key(
    offpeak: Offpeak, tmp_path: Path, replaced: str, by: str, message: str
) -> None:
    text = SKETCH.read_text(encoding="utf-8")
    assert replaced in text
    (tmp_path / "ours.toml").write_text(text.replace(replaced, by), encoding="utf-8")
    done = simulate(offpeak, "--capacity", "timeout", "--node-class", "ours.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("offpeak: error: ours.toml: ")
    assert message in done.stderr


def test_nodes_that_never_come_up_hang_nothing(offpeak: Offpeak, tmp_path: Path) -> None:
    text = SKETCH.read_text(encoding="utf-8").replace("failure_probability = 0.0", "failure_probability = 1.0")
    (tmp_path / "broken.toml").write_text(text, encoding="utf-8")
    done = simulate(offpeak, "--capacity", "always-on,energy-aware", "--node-class", "broken.toml")
    assert done.returncode == 0, done.stderr
    assert "jobs never started, as too many nodes had failed" in done.stdout
