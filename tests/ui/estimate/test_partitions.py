"""The table by partition of `estimate` and `simulate`."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Offpeak = Callable[..., subprocess.CompletedProcess[str]]

COLUMNS = "JobIDRaw;Partition;State;Submit;Start;End;AllocNodes;AllocCPUS;ReqTRES;QOS"
ROW = "{};{};COMPLETED;2023-01-0{}T{:02}:00:00;2023-01-0{}T{:02}:{:02}:00;2023-01-0{}T{:02}:30:00;1;16;{};normal"


def dump(tmp_path: Path) -> None:
    rows = [COLUMNS]
    for number in range(96):
        day, hour = 2 + number // 24, number % 24 // 2
        partition = ("cpu", "gpu")[number % 2]
        tres = "cpu=16,node=1" + (",gres/gpu=2" if number % 2 else "")
        wait_min = 5 if number % 2 else 0
        rows.append(ROW.format(number + 1, partition, day, hour, day, hour, wait_min, day, hour, tres))
    (tmp_path / "sacct.txt").write_text("\n".join(rows) + "\n")


def rows_of(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: line for line in lines if line and line[0] in ("partition", "cpu", "gpu")}


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_a_row_for_each_partition(offpeak: Offpeak, tmp_path: Path, command: str) -> None:
    dump(tmp_path)
    options = ("--replays", "10") if command == "estimate" else ()
    rows = rows_of(offpeak(command, "sacct.txt", "--time-zone", "UTC", *options))
    assert rows["partition"] == ["partition", "jobs", "node-hours", "GPU-hours", "utilization", "mean", "wait"]
    assert rows["cpu"] == ["cpu", "48", "24", "0", "-", "0:00:00"]
    assert rows["gpu"] == ["gpu", "48", "20", "40", "-", "0:05:00"]
    done = offpeak(command, "sacct.txt", "--time-zone", "UTC", *options, "--json")
    document = json.loads(done.stdout)
    gpu = {"partition": "gpu", "jobs": 48, "node_hours": 20.0, "gpu_hours": 40.0, "mean_wait_s": 300.0}
    unknown = {"utilization": None, "replayed_utilization": None, "use_difference": None}
    assert document["partitions"][1] == gpu | unknown
    assert document["likeness"]["logged_wait_s"] == 150.0
    assert document["likeness"]["is_near"] is False


def test_a_log_of_one_partition_has_no_such_table(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    text = (tmp_path / "sacct.txt").read_text().replace(";gpu;", ";cpu;")
    (tmp_path / "sacct.txt").write_text(text)
    assert rows_of(offpeak("simulate", "sacct.txt", "--time-zone", "UTC")) == {}


def test_an_anonymous_log_shows_no_name_of_a_partition(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    done = offpeak("simulate", "sacct.txt", "--time-zone", "UTC", "--anonymise")
    assert rows_of(done).keys() == {"partition"}
    assert "queue1" in done.stdout
    assert "normal" not in done.stdout
