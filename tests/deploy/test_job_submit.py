"""deploy/slurm/job_submit.lua in a real slurmctld: what it refuses, with which message, and what it accepts."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from needed_programs import need
from slurm_fixtures import PACKAGES

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster, munge, slurmctld
from offpeak.model.flexibility import parse_user_hints
from offpeak.plugin.queue_hook.start_times import SUBMISSION_HOLD_S

PROGRAMS = ("slurmctld", "sbatch", "munged", "setpriv", "/usr/lib/*/slurm-wlm/job_submit_lua.so")
BROKEN = 'error("broken on purpose")\n'
DELAY = "write it like offpeak:delay=12h, with s, min, h or d"
CHECKPOINT = (
    "write it like offpeak:checkpoint=10min or checkpoint=USR2@10min, below a day; USR1, USR2, TERM, INT or HUP"
)
DEADLINE = "write it like offpeak:deadline=2026-11-22T08:00 or 2026-11-22T08:00+01:00"

YEAR = "'{}' is not between 1970 and 2999; write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00"


@pytest.fixture(scope="module")
def cluster(repository: Path) -> Iterator[SlurmCluster]:
    """A controller without nodes: jobs are taken, and wait."""
    need(PROGRAMS, packages=PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="offpeak-slurm-", ignore_cleanup_errors=True) as name,
        ExitStack() as servers,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        socket = servers.enter_context(munge(folder))
        port, *node_ports = servers.enter_context(reserved_ports(2))
        cluster = SlurmCluster(folder, socket, port, tuple(node_ports), "JobSubmitPlugins=lua")
        cluster.write_conf()
        shutil.copy(repository / "deploy" / "slurm" / "job_submit.lua", folder)
        servers.enter_context(slurmctld(cluster))
        yield cluster


def submit(cluster: SlurmCluster, comment: str, *options: str) -> str:
    """Return what the user reads: the refusal, or "" for a job that was taken."""
    try:
        cluster.run("sbatch", "--parsable", f"--comment={comment}", "--hold", *options, "--wrap=true")
    except subprocess.CalledProcessError as refused:
        lines = str(refused.stderr).splitlines()
        assert lines[-1].startswith("sbatch: error: Batch job submission failed"), lines
        return lines[0].removeprefix("sbatch: error: ")
    return ""


def at(from_now: timedelta) -> str:
    return f"{datetime.now() + from_now:%Y-%m-%dT%H:%M}"


@pytest.mark.parametrize(
    "comment",
    [
        "anything, delay=12parsecs",
        "notoffpeak:nonsense",
        "offpeak:now",
        "offpeak:delay=0.5h,delay=1e3s;offpeak:now for ann",
        "offpeak:delay=1h,project=%d%s",
        "offpeak: not before tomorrow",
        "offpeak:deadline=2999-02-28T08:00",
        "offpeak:deadline=2996-02-29T23:59:59Z",
        "offpeak:deadline=2999-12-31T00:00-11:30",
        "offpeak:checkpoint=10m,cap",
        "offpeak:delay=2d,checkpoint=TERM@90s",
    ],
)
def test_job_with_valid_hints_passes(cluster: SlurmCluster, comment: str) -> None:
    assert submit(cluster, comment) == ""
    assert parse_user_hints(comment, UTC).errors == ()


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        ("delay=12parsecs", DELAY),
        ("delay=12", DELAY),
        ("delay=", DELAY),
        ("delay=0x10h", DELAY),
        ("delay=-1h", "a delay is zero or more, in whole seconds"),
        ("delay=0.5s", "a delay is zero or more, in whole seconds"),
        ("deadline=tomorrow", DEADLINE),
        ("deadline=2999-02-29T08:00", DEADLINE),
        ("deadline=2999-13-01T08:00", DEADLINE),
        ("deadline=2999-01-01T24:00", DEADLINE),
        ("deadline=2999-01-01T08:00CET", DEADLINE),
        ("deadline=2999-01-01T08:00+24:00", DEADLINE),
        ("deadline=0001-01-01T00:00", YEAR.format("0001-01-01T00:00")),
        ("deadline=1969-12-31T23:59Z", YEAR.format("1969-12-31T23:59Z")),
        ("deadline=9999-01-01T00:00", YEAR.format("9999-01-01T00:00")),
        ("delay=1e9d", "'1e9d' is more than 100 years; check the number and its unit"),
        ("later", "known are delay=12h, deadline=2026-11-22T08:00, checkpoint=10min, cap and now"),
        ("checkpoint=KILL@5s", CHECKPOINT),
        ("checkpoint=24h", CHECKPOINT),
        ("checkpoint=0s", CHECKPOINT),
    ],
)
def test_refused_hints_are_those_that_the_agent_cannot_parse(cluster: SlurmCluster, hint: str, problem: str) -> None:
    assert submit(cluster, f"for ann, offpeak:now,offpeak:{hint}") == f"offpeak:{hint} in the comment: {problem}"
    assert len(parse_user_hints(f"offpeak:{hint}", UTC).errors) == 1


def test_a_deadline_has_to_leave_room_for_the_limit(cluster: SlurmCluster) -> None:
    past, soon = f"offpeak:deadline={at(-timedelta(hours=1))}", f"offpeak:deadline={at(timedelta(minutes=90))}"
    assert submit(cluster, past) == f"{past} in the comment: that time has passed"
    too_late = f"{soon} in the comment: with its time limit of 120 min the job cannot end by then"
    assert submit(cluster, soon, "--time=2:00:00") == too_late
    assert submit(cluster, soon, "--time=1:00:00") == ""
    assert submit(cluster, soon, "--time=1:00:00", "--begin=now+1hour").endswith("the job cannot end by then")
    assert submit(cluster, soon, "--time=UNLIMITED") == ""
    assert submit(cluster, soon) == ""


def test_nothing_but_the_begin_of_a_job_is_changed(cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--comment=offpeak:delay=1h", "--hold", "--wrap=true").strip()
    shown = cluster.run("scontrol", "show", "job", job)
    assert "Comment=offpeak:delay=1h" in shown
    assert "AdminComment" not in shown
    cluster.run("scontrol", "update", f"jobid={job}", "comment=offpeak:nonsense")


@pytest.mark.parametrize(
    ("comment", "begin", "waits_s"),
    [
        ("offpeak:delay=1h", "now", SUBMISSION_HOLD_S),
        ("for ann offpeak:cap,deadline=2999-01-01T00:00", "now", SUBMISSION_HOLD_S),
        ("offpeak:delay=1h", "now+1hour", 3601),
        ("offpeak:delay=1h,now", "now", 1),
        ("offpeak:cap", "now", 1),
        ("delay=1h", "now", 1),
    ],
)
def test_a_job_that_may_wait_waits_for_the_first_decision(
    cluster: SlurmCluster, comment: str, begin: str, waits_s: int
) -> None:
    options = () if begin == "now" else (f"--begin={begin}",)
    job = cluster.run("sbatch", "--parsable", f"--comment={comment}", *options, "--wrap=true").strip()
    shown = dict(term.partition("=")[::2] for term in cluster.run("scontrol", "show", "job", job).split())
    submitted, eligible = (datetime.fromisoformat(shown[name]) for name in ("SubmitTime", "EligibleTime"))
    assert waits_s - 2 <= (eligible - submitted).total_seconds() <= waits_s


def test_an_error_of_its_own_lets_the_job_pass(cluster: SlurmCluster) -> None:
    script = cluster.folder / "job_submit.lua"
    ours = script.read_text()
    try:
        rewrite(script, ours.replace("for chunk in", f"{BROKEN}  for chunk in"))
        assert submit(cluster, "offpeak:delay=12parsecs") == ""
        assert "broken on purpose" in (cluster.folder / "slurmctld.log").read_text()
    finally:
        rewrite(script, ours)


def rewrite(script: Path, text: str) -> None:
    """Write the script so that the plugin reads it again: it compares the times of change, in whole seconds."""
    later_s = script.stat().st_mtime + 10
    script.write_text(text)
    os.utime(script, (later_s, later_s))
