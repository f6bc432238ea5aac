"""The table by partition of `estimate` and `simulate`."""

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from offpeak.sim_backend.comparison.likeness import PartitionUse
from offpeak.text import natural_key
from offpeak.ui.replay.likeness import partition_table

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


PREEMPTING = """
[node_types.node]
count = 1
cores = 16

[partitions.low]
node_types = ["node"]

[partitions.high]
node_types = ["node"]
priority_tier = 2
preempts = true
"""


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_runs_that_are_stopped_for_other_jobs_are_counted(offpeak: Offpeak, tmp_path: Path, command: str) -> None:
    row = (
        "{};{};COMPLETED;2023-01-02T{:02}:{}:00;2023-01-02T{:02}:{}:00;2023-01-02T{:02}:{}:00;1;16;cpu=16,node=1;normal"
    )
    rows = [COLUMNS]
    for hour in range(24):
        rows.append(row.format(2 * hour + 1, "low", hour, "00", hour, "00", hour, "30"))
        rows.append(row.format(2 * hour + 2, "high", hour, "10", hour, "30", hour, "40"))
    (tmp_path / "sacct.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "cluster.toml").write_text(PREEMPTING)
    done = offpeak(command, "sacct.txt", "--time-zone", "UTC", "--cluster", "cluster.toml")
    assert done.returncode == 0, done.stderr
    assert "easy: 24 runs stopped for other jobs, 4.0 node-hours wasted" in " ".join(done.stdout.split())
    off = PREEMPTING.replace("[partitions.low]\n", '[partitions.low]\npreempt_mode = "off"\n')
    (tmp_path / "cluster.toml").write_text(off)
    assert "stopped for other jobs" not in offpeak(command, "sacct.txt", "--cluster", "cluster.toml").stdout


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_a_row_for_each_partition(offpeak: Offpeak, tmp_path: Path, command: str) -> None:
    dump(tmp_path)
    options = ("--replays", "10") if command == "estimate" else ()
    rows = rows_of(offpeak(command, "sacct.txt", "--time-zone", "UTC", *options))
    logged, replayed = (
        ["partition", "jobs", "node-hours", "GPU-hours", "utilization", "mean", "wait"],
        ["under", "easy"],
    )
    assert rows["partition"][:9] == logged + replayed
    assert rows["cpu"][:9] == ["cpu", "48", "24", "0", "-", "0", "s", "0", "s"]
    assert rows["gpu"][:9] == ["gpu", "48", "20", "40", "-", "5", "min", "0", "s"]
    by_partition = () if command == "estimate" else ("--by", "partition")
    done = offpeak(command, "sacct.txt", "--time-zone", "UTC", *options, *by_partition, "--json")
    document = json.loads(done.stdout)
    if by_partition:
        easy = document["policies"][0]
        assert [(row["group"], row["jobs"]) for row in easy["by_partition"]] == [("cpu", 48), ("gpu", 48)]
        assert easy["partition_wait_s"] == {row["group"]: row["mean_wait_s"] for row in easy["by_partition"]}
    gpu = {"partition": "gpu", "jobs": 48, "node_hours": 20.0, "gpu_hours": 40.0, "mean_wait_s": 300.0}
    unknown = {"utilization": None, "replayed_utilization": None, "use_difference": None, "counts_gpus": False}
    assert document["partitions"][1] == gpu | unknown
    assert document["likeness"]["logged_wait_s"] == 150.0
    assert document["likeness"]["is_near"] is False


def test_a_log_of_one_partition_has_no_such_table(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    text = (tmp_path / "sacct.txt").read_text().replace(";gpu;", ";cpu;")
    (tmp_path / "sacct.txt").write_text(text)
    assert rows_of(offpeak("simulate", "sacct.txt", "--time-zone", "UTC")) == {}


def test_partitions_are_in_natural_order_and_the_smallest_of_many_share_a_row() -> None:
    def use(number: int) -> PartitionUse:
        return PartitionUse(f"p{number}", 2, float(number), None, 0.5, 0.5, 0.0, 60.0 * number)

    few = Console(width=100, record=True, file=io.StringIO())
    few.print(partition_table([use(number) for number in range(1, 41)], {}))
    assert len(few.export_text().splitlines()) == 41
    many = Console(width=100, record=True, file=io.StringIO())
    many.print(partition_table([use(number) for number in range(1, 101)], {}))
    rows = [line.split() for line in many.export_text().splitlines()]
    assert [row[0] for row in rows[1:]] == [*(f"p{number}" for number in range(62, 101)), "61"]
    assert rows[-1] == ["61", "others", "122", "1,891", "-", "31", "min"]
    assert sorted(["p10", "batch", "p2", "p1", "10", "9"], key=natural_key) == ["9", "10", "batch", "p1", "p2", "p10"]


def test_an_anonymous_log_shows_no_name_of_a_partition(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    done = offpeak("simulate", "sacct.txt", "--time-zone", "UTC", "--anonymise")
    assert rows_of(done).keys() == {"partition"}
    assert "queue1" in done.stdout
    assert "normal" not in done.stdout


CLUSTER = """
[node_types.thin]
count = 2
cores = 16

[node_types.gpu]
count = 1
cores = 16
gpus = { a100 = 4 }

[partitions.cpu]
node_types = ["thin"]

[partitions.gpu]
node_types = ["gpu"]
"""


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_a_log_is_replayed_on_the_pools_of_a_cluster(offpeak: Offpeak, tmp_path: Path, command: str) -> None:
    dump(tmp_path)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    options = ("--time-zone", "UTC", "--cluster", "cluster.toml")
    done = offpeak(command, "sacct.txt", *options, *(("--replays", "10") if command == "estimate" else ()))
    rows = rows_of(done)
    # Four days less twelve and a half hours; two nodes and one.
    assert rows["cpu"][1:5] == ["48", "24", "0", f"{100 * 24 / (2 * 83.5):.1f}"]
    assert rows["gpu"][1:5] == ["48", "20", "40", f"{100 * 20 / 83.5:.1f}"]
    assert "96 jobs on 3 nodes" in done.stdout
    assert "- cluster: 2 nodes of 16 cores; 1 node of 16 cores, 4 a100 GPUs" in done.stdout
    assert "- priorities and limits of users are not logged" in done.stdout
    anonymous = offpeak(command, "sacct.txt", *options, "--anonymise")
    assert anonymous.returncode == 0
    assert "has no partition" not in anonymous.stdout


BY_TIER = "jobs start by the tier of their partition, then by "
ORDERS = {
    "": f"priorities and limits of users are not logged: {BY_TIER}submission",
    "recorded": f"{BY_TIER}the priority that the log records for their start",
    "multifactor": f"{BY_TIER}Slurm's multifactor priority (age 10, fair share 7)",
}
PRIORITY = """
[priority]
age = 10
fair_share = 7
"""


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_the_replay_is_named(offpeak: Offpeak, tmp_path: Path, order: str) -> None:
    dump(tmp_path)
    if order == "recorded":
        header, *rows = (tmp_path / "sacct.txt").read_text().splitlines()
        lines = [f"{header};Priority", *(f"{row};{number}" for number, row in enumerate(rows))]
        (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "cluster.toml").write_text(CLUSTER + (PRIORITY if order == "multifactor" else ""))
    options = ("--time-zone", "UTC", "--cluster", "cluster.toml")
    done = offpeak("simulate", "sacct.txt", *options)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(f"- {ORDERS[order]}")] != []
    document = json.loads(offpeak("estimate", "sacct.txt", *options, "--replays", "10", "--json").stdout)
    assert document["likeness"]["order"] == (order or "submission")


def test_a_job_that_fits_no_node_is_named(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    (tmp_path / "cluster.toml").write_text(CLUSTER.replace("a100 = 4", "a100 = 1"))
    done = offpeak("simulate", "sacct.txt", "--time-zone", "UTC", "--cluster", "cluster.toml")
    left_out = "- left out: 48 jobs, no node of partition gpu has 16 cores, 2 GPUs (jobs 2, 4, 6, 8, 10, ...)"
    assert left_out in done.stdout.splitlines()
    assert "- jobs with 45 % of the node-hours are left out of the replay" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "3"), "--cluster and --nodes cannot be combined"),
        (("--processors-per-node", "16"), "--cluster and --processors-per-node cannot be combined"),
    ],
)
def test_what_a_cluster_excludes(offpeak: Offpeak, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    dump(tmp_path)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    done = offpeak("estimate", "sacct.txt", "--time-zone", "UTC", "--cluster", "cluster.toml", *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_nodes_of_a_cluster_sleep_by_their_type(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    options = ("--cluster", "cluster.toml", "--capacity", "always-on,timeout:10min", "--time-zone", "UTC")
    document = json.loads(offpeak("simulate", "sacct.txt", *options, "--json").stdout)
    awake, asleep = (policy["by_node_type"] for policy in document["policies"][::3])
    assert all(row["asleep_node_h"] == 0 for row in awake)
    assert all(row["asleep_node_h"] > 0 for row in asleep)
    assert "node-hours" in offpeak("simulate", "sacct.txt", *options).stdout


def test_a_bad_cluster_is_one_line_with_a_hint(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    (tmp_path / "cluster.toml").write_text(CLUSTER.replace('["gpu"]', "[]"))
    done = offpeak("simulate", "sacct.txt", "--cluster", "cluster.toml")
    assert done.returncode == 2
    assert "cluster.toml: partitions.gpu.node_types: has no node type" in done.stderr
    missing = offpeak("simulate", "sacct.txt", "--cluster", "none.toml")
    assert missing.returncode == 2
    assert "none.toml" in missing.stderr


def test_the_report_says_how_far_the_replay_is(offpeak: Offpeak, tmp_path: Path) -> None:
    dump(tmp_path)
    text = (tmp_path / "sacct.txt").read_text().splitlines()
    # One day's jobs start in the reverse order of the log.
    rows = [row.split(";") for row in text[1:]]
    for number, row in enumerate(rows):
        start_min = 59 - number % 24
        row[4], row[5] = f"{row[3][:10]}T20:{start_min:02}:00", f"{row[3][:10]}T23:59:00"
    (tmp_path / "sacct.txt").write_text("\n".join([text[0], *map(";".join, rows)]) + "\n")
    done = offpeak("simulate", "sacct.txt", "--time-zone", "UTC", "--report", "r.html", "--policy", "easy")
    line = next(line for line in done.stdout.splitlines() if "the order in which a day's jobs start" in line)
    assert "with that of the log, less than 0.85" in line
    assert "jobs start correlates" in (tmp_path / "r.html").read_text()
