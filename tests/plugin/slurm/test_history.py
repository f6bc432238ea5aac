"""What sacct tells of real jobs of every kind."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from slurm_fixtures import SlurmAccounting

from benchmarks.local_slurm.processes import ME, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.slurm.accounting import DELIMITER, SACCT_COLUMNS, sacct_text

ODD_NAME = f"a|b,{DELIMITER}c é"
# Other tests have jobs on this cluster too.
FORGED = f"forged\n{DELIMITER.join(['999999'] * len(SACCT_COLUMNS))}"
NAMES = {ODD_NAME, "forged", "failed", "tasks", "wide", "running", "requeued", "cancelled"}

Row = dict[str, str]


@dataclass(frozen=True)
class History:
    """The output of sacct after jobs of every kind, and the Unix times between which they were."""

    rows: list[Row]
    began_s: float
    ended_s: float

    def named(self, name: str) -> list[Row]:
        return [row for row in self.rows if row["JobName"] == name]


def rows_of(text: bytes) -> list[Row]:
    header, *lines = text.decode().splitlines()
    assert tuple(header.split(DELIMITER)) == SACCT_COLUMNS
    return [dict(zip(SACCT_COLUMNS, line.split(DELIMITER, len(SACCT_COLUMNS) - 1), strict=True)) for line in lines]


def submit(cluster: SlurmCluster, name: str, script: str, *options: str) -> str:
    command = ("sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", *options, "--wrap", script)
    return cluster.run(*command).strip()


def submit_every_kind(cluster: SlurmCluster) -> None:
    submit(cluster, ODD_NAME, "true")
    submit(cluster, FORGED, "true")
    submit(cluster, "failed", "exit 3", "--time=5")
    submit(cluster, "tasks", "true", "--array=1-3")
    submit(cluster, "wide", "true", "--nodes=2", "--exclusive", "--partition=again")
    submit(cluster, "running", "sleep 600")
    requeued = submit(cluster, "requeued", "sleep 600")
    pending = submit(cluster, "cancelled", "true", "--nodes=4", "--exclusive")
    wait_until(lambda: cluster.run("squeue", "-h", "-n", "requeued,running", "-t", "R").count("\n") == 2, what="jobs")
    cluster.run("scontrol", "requeue", requeued)
    cluster.run("scancel", pending)


def is_listed(rows: list[Row]) -> bool:
    states = [row["State"].partition(" ")[0] for row in rows if row["JobName"] in NAMES]
    ended = states.count("COMPLETED"), states.count("FAILED"), states.count("CANCELLED"), states.count("REQUEUED")
    return ended == (6, 1, 1, 1) and "RUNNING" in states


@pytest.fixture(scope="module")
def history(slurm_accounting: SlurmAccounting) -> Iterator[History]:
    cluster = slurm_accounting.cluster
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SLURM_CONF", str(cluster.conf))
        # A zone and a format of the user's own must not change the answer.
        environment.setenv("TZ", "Asia/Kolkata")
        environment.setenv("SLURM_TIME_FORMAT", "relative")
        began_s = time.time()
        submit_every_kind(cluster)
        wait_until(lambda: is_listed(rows_of(sacct_text(1))), what="the jobs in the accounting")
        yield History(rows_of(sacct_text(1)), began_s, time.time())
    cluster.run("scancel", f"--user={ME}")


def test_a_finished_job_has_its_times_in_unix_seconds_and_any_name(history: History) -> None:
    (job,) = history.named(ODD_NAME)
    times = [int(job[column]) for column in ("Submit", "Eligible", "Start", "End")]
    assert times == sorted(times)
    assert int(history.began_s) <= times[0]
    assert times[-1] <= history.ended_s
    assert int(job["ElapsedRaw"]) == times[3] - times[2]
    assert (job["State"], job["AllocNodes"], job["AllocCPUS"]) == ("COMPLETED", "1", "1")


def test_a_line_break_in_a_name_forges_no_row(history: History) -> None:
    (job,) = history.named("forged")
    assert job["State"] == "COMPLETED"
    assert not [row for row in history.rows if row["JobIDRaw"] == "999999"]


def test_pieces_of_a_long_time_have_each_run(history: History) -> None:
    ended = [row for row in history.rows if row["State"] != "RUNNING"]
    pieces = rows_of(sacct_text(15))
    assert [row for row in ended if row not in pieces] == []
    assert [row["JobIDRaw"] for row in pieces if not row["JobIDRaw"].isdigit()] == []


def test_a_failed_job_and_one_of_whole_nodes(history: History) -> None:
    (failed,), (wide,) = history.named("failed"), history.named("wide")
    assert (failed["State"], failed["TimelimitRaw"]) == ("FAILED", "5")
    assert (wide["Partition"], wide["AllocNodes"], wide["AllocCPUS"]) == ("again", "2", "8")


def test_tasks_of_an_array_have_numbers_of_their_own(history: History) -> None:
    tasks = history.named("tasks")
    assert sorted(task["JobID"].partition("_")[2] for task in tasks) == ["1", "2", "3"]
    assert len({int(task["JobIDRaw"]) for task in tasks}) == 3


def test_a_running_job_has_no_end(history: History) -> None:
    (running,) = history.named("running")
    assert (running["State"], running["End"]) == ("RUNNING", "Unknown")
    assert int(running["Start"]) <= history.ended_s


def test_a_job_cancelled_in_the_queue_had_no_node(history: History) -> None:
    (cancelled,) = history.named("cancelled")
    assert cancelled["State"].startswith("CANCELLED by ")
    # Slurm may let it start when it ends, and shows the requested processors as if they were allocated.
    assert cancelled["Start"] in ("None", cancelled["End"])
    assert (cancelled["ElapsedRaw"], cancelled["AllocNodes"], cancelled["AllocCPUS"]) == ("0", "0", "4")


def test_each_run_of_a_requeued_job_is_listed(history: History) -> None:
    requeued = [row for row in history.named("requeued") if row["State"] == "REQUEUED"]
    assert len(requeued) == 1
    assert int(requeued[0]["End"]) >= int(requeued[0]["Start"])
