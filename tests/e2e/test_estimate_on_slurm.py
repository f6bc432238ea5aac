"""`offpeak estimate` on a running Slurm: real jobs, Slurm's own accounting, the installed command, no log to name."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from slurm_fixtures import ACCOUNTING, accounting_slurm

from benchmarks.local_slurm.processes import ME, reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.cluster_file import read_cluster
from offpeak.sim_backend.traces.slurm.fields import SACCT_COMMAND

OFFPEAK = Path(sys.executable).with_name("offpeak")
SETTINGS = ("--power", "constant:200W", "--idle-power", "75W")
BUSY_W, IDLE_W = 200, 75
J_PER_KWH = 3_600_000
SCREEN_LINES = 35
# What users call their jobs is nothing for a report.
JOB_NAME = "secret-project"
DUMP = SACCT_COMMAND.replace("sacct.txt", "dump.txt")

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class HeadNode:
    """Where the operator types: a folder, and an environment in which Slurm's commands find their cluster."""

    cluster: SlurmCluster
    folder: Path
    environment: dict[str, str]

    def run(self, *command: str | Path) -> Done:
        """Return the result of the command."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )

    def estimate(self, *arguments: str) -> Done:
        """Return the output of `offpeak estimate`."""
        return self.run(OFFPEAK, "estimate", *arguments)

    def submit(self, script: str, *options: str) -> str:
        """Submit a job that has its nodes alone; return its id."""
        options = (*options, "--exclusive", f"--job-name={JOB_NAME}", "--output=/dev/null")
        return self.cluster.run("sbatch", "--parsable", *options, "--wrap", script).strip()


@dataclass(frozen=True)
class Run:
    """A job from sacct: Unix seconds, None as the end of a running job."""

    start_s: float
    end_s: float | None
    nodes: int


def head_node(cluster: SlurmCluster, folder: Path) -> HeadNode:
    # Settings of a site and a forced colour would change the answers.
    changing = {"OFFPEAK_CONFIG", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"}
    kept = {name: value for name, value in os.environ.items() if name not in changing}
    return HeadNode(cluster, folder, kept | {"SLURM_CONF": str(cluster.conf)})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadNode]:
    """A cluster on which jobs of one and two nodes have finished, one was cancelled in the queue and one runs.

    No other test has jobs there: they would be in the energy, some without the whole of their nodes.
    """
    with accounting_slurm() as accounting:
        cluster = accounting.cluster
        site = head_node(cluster, tmp_path_factory.mktemp("head"))
        running = site.submit("sleep 600", "--time=30")
        finished = [site.submit(f"sleep {nodes}", f"--nodes={nodes}", "--time=5") for nodes in (1, 1, 2)]
        cancelled = site.submit("true", "--nodes=4")
        wait_until(lambda: states(cluster, running) == ["RUNNING"], what="a running job")
        cluster.run("scancel", cancelled)
        wait_until(lambda: states(cluster, *finished) == ["COMPLETED"] * 3, what="finished jobs in the accounting")
        wait_until(lambda: states(cluster, cancelled) == ["CANCELLED"], what="the cancelled job in the accounting")
        yield site
        cluster.run("scancel", f"--user={ME}")


def states(cluster: SlurmCluster, *jobs: str) -> list[str]:
    reported = cluster.run("sacct", "--noheader", "-X", "-P", "-o", "State", "-j", ",".join(jobs))
    return [line.partition(" ")[0] for line in reported.splitlines()]


def documented_dump(site: HeadNode, repository: Path) -> list[Run]:
    """Type the command line of docs/reference/job-logs.md, which writes sacct.txt; return the jobs that ran."""
    page = (repository / "docs" / "reference" / "job-logs.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (sacct .* > sacct\.txt)$", page, re.MULTILINE)
    assert site.run("bash", "-c", command).returncode == 0
    header, *lines = (site.folder / "sacct.txt").read_text(encoding="utf-8").splitlines()
    columns = header.split(";")
    # The last is JobName, which may hold anything.
    rows = [dict(zip(columns, line.split(";", len(columns) - 1), strict=True)) for line in lines]
    return [run_of(row) for row in rows if row["AllocNodes"] != "0"]


def run_of(row: dict[str, str]) -> Run:
    end_s = None if row["End"] == "Unknown" else datetime.fromisoformat(row["End"]).timestamp()
    return Run(datetime.fromisoformat(row["Start"]).timestamp(), end_s, int(row["AllocNodes"]))


def energy_kwh(runs: list[Run], begin_s: float, until_s: float, *, nodes: int) -> float:
    busy_node_s = sum(run.nodes * ((run.end_s or until_s) - run.start_s) for run in runs)
    return (BUSY_W * busy_node_s + IDLE_W * (nodes * (until_s - begin_s) - busy_node_s)) / J_PER_KWH


def test_one_screen_names_the_cluster_and_counts_its_jobs_and_nodes(site: HeadNode) -> None:
    # At night the assumed tariff has one price for hours: which levers count does not depend on when the test runs.
    hours = (2 - datetime.now(UTC).hour + 12) % 24 - 12
    at_night = replace(site, environment={**site.environment, "TZ": f"Etc/GMT{-hours:+d}"})
    done = at_night.estimate()
    assert (done.returncode, done.stderr) == (0, "")
    assumed, first, *others = done.stdout.splitlines()
    assert assumed.startswith("No prices are given: the amounts below are for an assumed tariff, ")
    assert first.startswith("test, ")
    assert first.endswith(": 4 jobs on 4 nodes")
    # Jobs that took longer, on a busy machine, waited in less of the time, which is one line more.
    others = [line for line in others if not line.startswith("jobs waited in ")]
    assert len(others) < SCREEN_LINES, done.stdout
    assert "- 1 job still running: counted with the run time so far" in others
    assert any(line.startswith("- left out: ") and "never started" in line for line in others)


def test_energy_is_that_of_sacct_s_own_times(site: HeadNode, repository: Path) -> None:
    requested_s = time.time()
    document = json.loads(site.estimate(*SETTINGS, "--json").stdout)
    reported_s = time.time()
    runs = documented_dump(site, repository)
    used = document["used"]
    begin_s, until_s = (used[edge] + document["unix_offset_s"] for edge in ("begin_s", "until_s"))
    assert begin_s == min(run.start_s for run in runs)
    assert int(requested_s) <= until_s <= reported_s
    assert document["jobs"] == len(runs)
    assert used["energy_kwh"]["middle"] == pytest.approx(energy_kwh(runs, begin_s, until_s, nodes=4))


def test_a_dump_by_the_documented_command_gives_the_same_jobs(site: HeadNode, repository: Path) -> None:
    runs = documented_dump(site, repository)
    taken_s = int((site.folder / "sacct.txt").stat().st_mtime)
    document = json.loads(site.estimate("sacct.txt", *SETTINGS, "--nodes", "4", "--json").stdout)
    used = document["used"]
    begin_s, until_s = (used[edge] + document["unix_offset_s"] for edge in ("begin_s", "until_s"))
    assert (document["log"], document["jobs"]) == ("sacct", len(runs))
    assert begin_s == min(run.start_s for run in runs)
    assert until_s == pytest.approx(taken_s, abs=1)
    assert used["energy_kwh"]["middle"] == pytest.approx(energy_kwh(runs, begin_s, until_s, nodes=4))


def test_the_cluster_is_written_for_another_machine(site: HeadNode) -> None:
    done = site.estimate("--write-cluster", "cluster.toml")
    assert done.returncode == 0
    assert done.stderr.startswith("cluster.toml: cluster: 4 nodes of 4 cores")
    cluster = read_cluster(site.folder / "cluster.toml")
    assert (cluster.nodes, sorted(cluster.partitions), "normal" in cluster.qos) == (4, ["again", "batch"], True)
    site.run("bash", "-c", DUMP)
    elsewhere = site.run(OFFPEAK, "estimate", "dump.txt", "--cluster", "cluster.toml", "--replays", "10")
    assert (elsewhere.returncode, elsewhere.stderr) == (0, "")
    assert ": 4 jobs on 4 nodes" in elsewhere.stdout
    assert "left out: " in elsewhere.stdout


def test_the_last_day_without_names(site: HeadNode) -> None:
    done = site.estimate("--days", "1", "--anonymise")
    assert (done.returncode, done.stderr) == (0, "")
    assert ": 4 jobs on 4 nodes\n" in done.stdout
    assert JOB_NAME not in done.stdout


def test_a_slurmdbd_that_is_down_is_reported_in_a_line_with_a_hint(site: HeadNode) -> None:
    cluster = site.cluster
    with reserved_ports(1) as (port,), tempfile.TemporaryDirectory(dir=cluster.folder) as folder:
        settings = ACCOUNTING.format(port=port, munge=cluster.munge)
        silent = replace(cluster, folder=Path(folder), settings=settings)
        silent.write_conf()
        done = head_node(silent, site.folder).estimate()
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()
    assert re.fullmatch(r"offpeak: error: sacct: Problem talking to .*: Connection refused", error)
    assert hint.startswith("  hint: ")
    assert "sacctmgr ping" in hint
