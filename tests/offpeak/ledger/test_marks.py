"""What the program remembers: marks before a job is changed, and small texts over a restart."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_sums import answers, file_of

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import CannotWrite
from offpeak.ledger.database import back_up_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark

Open = Callable[..., Ledger]
RANK = JobMark("1841", 1_000.0, "rank", 4_294_901_000, 4_294_900_000, 2_000.0)
BEGIN = JobMark("1841", 1_000.0, "begin", 0, 1_800_000_000, 2_000.0)

DIES = """\
import sys, time
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.settings.ledger import LedgerSettings

ledger = Ledger(LedgerSettings(url=sys.argv[1]), patience_s=60.0)
ledger.remember_marks([JobMark(str(job), 1.0, "rank", job, -job, 2.0) for job in range(500)])
print("written", flush=True)
time.sleep(3600)
"""


def test_mark_keeps_the_first_value_of_a_job(ledger: Ledger) -> None:
    ledger.remember_marks([RANK, BEGIN])
    ledger.remember_marks([replace(RANK, was=RANK.to, to=7, at_unix_s=3_000.0)])
    assert ledger.marks() == (BEGIN, replace(RANK, to=7, at_unix_s=3_000.0))
    again = replace(RANK, submitted_unix_s=9_000.0)
    ledger.remember_marks([again])
    ledger.forget_marks([RANK, replace(BEGIN, job="none")])
    assert ledger.marks() == (BEGIN, again)
    ledger.remember_marks([])
    ledger.forget_marks([])
    assert len(ledger.marks()) == 2


def test_marks_are_on_the_disk_before_anything_is_changed(url: str, opened: Open) -> None:
    with subprocess.Popen([sys.executable, "-c", DIES, url], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        assert agent.stdout.readline() == "written\n"
        os.kill(agent.pid, signal.SIGKILL)
    marks = opened(url).marks()
    assert len(marks) == 500
    assert all(mark.to == -mark.was for mark in marks)


def test_of_many_marks_all_or_none_are_written(tmp_path: Path, opened: Open) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", patience_s=0.5, bound_s=300.0)
    ledger.ready()
    with closing(sqlite3.connect(file_of(ledger), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CannotWrite, match="database is locked"):
            ledger.remember_marks([RANK, BEGIN])
    wait_until(lambda: answers(ledger), what="the ledger to answer again")
    assert ledger.marks() == ()


def test_a_text_is_remembered_over_a_restart(url: str, opened: Open) -> None:
    first = opened(url)
    assert first.remembered("lives") is None
    for number in range(3):
        first.remember("lives", f"[{number}]")
    first.remember("accounts", "{}")
    assert first.close() == 0
    again = opened(url)
    assert (again.remembered("lives"), again.remembered("accounts")) == ("[2]", "{}")


def test_texts_are_found_by_the_beginning_of_their_names(ledger: Ledger) -> None:
    for name in ("life of n1", "life of n2", "lifeXofXn3", "times"):
        ledger.remember(name, name.upper())
    assert ledger.all_remembered("life of ") == {"life of n1": "LIFE OF N1", "life of n2": "LIFE OF N2"}


def test_of_one_name_only_the_last_text_waits(tmp_path: Path, opened: Open) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", patience_s=0.5, bound_s=300.0)
    ledger.ready()
    with closing(sqlite3.connect(file_of(ledger), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for number in range(1000):
            ledger.remember(f"of {number % 2}", str(number))
        wait_until(lambda: ledger.problem() is not None, what="an attempt to write")
        problem = ledger.problem()
        assert problem
        assert problem.waiting <= 4
    assert ledger.settle()
    assert (ledger.remembered("of 0"), ledger.remembered("of 1")) == ("998", "999")


def test_a_copy_has_the_marks_too(ledger: Ledger, tmp_path: Path, opened: Open) -> None:
    if ledger.settings.url.startswith("postgresql"):
        pytest.skip("PostgreSQL's own tool makes copies")
    ledger.remember_marks([RANK])
    back_up_ledger(ledger.settings.url, tmp_path / "copy")
    assert opened(f"sqlite:///{tmp_path / 'copy'}").marks() == (RANK,)
    assert ledger.prune(1e12) == 0
    assert ledger.marks() == (RANK,)
