"""The message for an operator when a command of Slurm fails: each failure is a real one."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_fixtures import ACCOUNTING, SlurmAccounting

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster, slurmdbd
from offpeak.plugin.slurm.accounting import sacct_text
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent, ask, complaints_by_job

NOBODY = 65534


@pytest.fixture
def strict_slurmdbd(slurm_accounting: SlurmAccounting, use_settings: Callable[[str], SlurmCluster]) -> Iterator[None]:
    """A second slurmdbd on the same database, which hides jobs from others and answers for a week at most."""
    munge, database = slurm_accounting.cluster.munge, slurm_accounting.database
    settings = "PrivateData=jobs\nMaxQueryTimeRange=7-0"
    with reserved_ports(1) as (port,):
        folder = use_settings(ACCOUNTING.format(port=port, munge=munge)).folder
        with slurmdbd(folder, port, munge=munge, database=database, settings=settings):
            yield


@pytest.fixture
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def test_a_command_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotAskSlurm, match=r"^sacct: not found on PATH$") as caught:
        sacct_text(1)
    assert "export PATH" in caught.value.hint
    (tmp_path / "sacct").touch(mode=0o644)
    with pytest.raises(CannotAskSlurm, match=r"^sacct: cannot be run: Permission denied$"):
        sacct_text(1)


def test_a_complaint_of_a_command_that_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "squeue"
    program.touch(mode=0o755)
    # Nothing but a complaint is no empty queue.
    program.write_text("#!/bin/sh\necho 'squeue: error: some jobs are not shown' >&2\n")
    with pytest.raises(CannotAskSlurm, match=r"^squeue: some jobs are not shown$"):
        ask("squeue", timeout_s=120)
    # One that comes with an answer is logged, once.
    program.write_text("#!/bin/sh\necho 'squeue: warning: an old option' >&2\necho 17\n")
    assert [ask("squeue", timeout_s=120) for _ in range(2)] == [b"17\n", b"17\n"]
    assert [record.getMessage() for record in caplog.records] == [
        "squeue answered, and complained: squeue: warning: an old option"
    ]
    program.write_text("#!/bin/sh\necho 'squeue: error: RPC rate limited 1 time(s). Sleeping then trying again.' >&2\n")
    assert ask("squeue", timeout_s=120) == b""


@pytest.mark.parametrize(
    ("told", "problem"),
    [("", "empty"), ("ReservationName=upgrade StartTime=2026-11-01T00:00:00 EndTime=2026-11-01T0", "not complete")],
)
def test_an_answer_of_scontrol_without_its_end_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, problem: str
) -> None:
    """Else a maintenance would end that has just begun, or a node would lose the end of its state."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "scontrol"
    program.touch(mode=0o755)
    program.write_text(f"#!/bin/sh\nprintf '%s' '{told}'\n")
    with pytest.raises(CannotAskSlurm, match=f"^scontrol --all show reservations: its answer is {problem}$"):
        ask("scontrol", "--all", "show", "reservations", timeout_s=120)


def test_accounting_that_is_switched_off(use_settings: Callable[[str], SlurmCluster]) -> None:
    use_settings("AccountingStorageType=accounting_storage/none")
    with pytest.raises(CannotAskSlurm, match=r"^sacct: Slurm keeps no accounting here") as caught:
        sacct_text(1)
    assert not isinstance(caught.value, SlurmIsSilent)
    assert "AccountingStorageType=accounting_storage/slurmdbd" in caught.value.hint


def test_a_slurmdbd_that_is_down(cluster: SlurmCluster, use_settings: Callable[[str], SlurmCluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(ACCOUNTING.format(port=port, munge=cluster.munge))
        with pytest.raises(SlurmIsSilent, match=r"^sacct: Problem talking to .*: Connection refused$") as caught:
            sacct_text(1)
    assert "sacctmgr ping" in caught.value.hint


def test_a_slurmdbd_that_never_answers(cluster: SlurmCluster, use_settings: Callable[[str], SlurmCluster]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        use_settings(ACCOUNTING.format(port=deaf.getsockname()[1], munge=cluster.munge))
        with pytest.raises(SlurmIsSilent, match=r"^sacct: no answer within 0\.5 s$"):
            sacct_text(1, timeout_s=0.5)


@pytest.mark.usefixtures("cluster")
def test_error_text_of_slurm_is_passed_on() -> None:
    with pytest.raises(CannotAskSlurm, match=r'^sacct: .*Invalid field requested: "Colour"'):
        ask("sacct", "--format=Colour", timeout_s=120)


@pytest.mark.usefixtures("strict_slurmdbd", "as_nobody")
def test_jobs_that_only_their_owners_may_see() -> None:
    with pytest.raises(CannotAskSlurm, match="only your own jobs: PrivateData=jobs") as caught:
        sacct_text(1)
    assert "adminlevel=operator" in caught.value.hint


@pytest.mark.usefixtures("strict_slurmdbd", "as_nobody")
def test_more_days_than_slurmdbd_answers_for() -> None:
    with pytest.raises(CannotAskSlurm, match="refuses a query over so many days") as caught:
        sacct_text(30)
    assert "MaxQueryTimeRange" in caught.value.hint


@pytest.mark.usefixtures("cluster", "as_nobody")
def test_everybody_sees_all_jobs_of_a_usual_slurmdbd() -> None:
    assert sacct_text(1).startswith(b"JobIDRaw\x1f")


def test_orders_that_slurmctld_makes_wait_are_not_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with rl_enable: after some orders each one takes its time."""
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\nwhile read -r order; do sleep 0.02; echo "$order" >> "$0.orders"; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    orders = [f"update jobid={job} priority=5" for job in range(100)]
    with pytest.raises(SlurmIsSilent, match=r"no answer within 0\.5 s"):
        complaints_by_job(orders, command=(), timeout_s=0.5)
    (tmp_path / "scontrol.orders").unlink()
    assert complaints_by_job(orders, command=(), timeout_s=0.5, order_s=60.0) == {}
    assert (tmp_path / "scontrol.orders").read_text().splitlines() == orders
