"""Only one agent acts with a ledger, independent of state folders and sockets."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from postgres_server import new_postgres
from sqlalchemy import text

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import Effect
from offpeak.errors import CannotWrite
from offpeak.ledger.claim import HOLDER
from offpeak.ledger.database import writing_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.model.orders import NodeOrder
from offpeak.process import AlreadyRunning

Open = Callable[..., Ledger]
SLEEP = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
MARK = JobMark("1", 1.0, "rank", 1, 2, 1.0)

AGENT = """\
import sys, time
from offpeak.ledger.ledger import Ledger
from offpeak.settings.ledger import LedgerSettings
ledger = Ledger(LedgerSettings(url=sys.argv[1]))
ledger.claim()
ledger.ready()
print("claimed", flush=True)
time.sleep(120)
"""


@contextmanager
def other_agent(url: str, repository: Path) -> Iterator["subprocess.Popen[str]"]:
    """Let another process claim the ledger; it is killed at the end."""
    environment = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", AGENT, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "claimed\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def writes(ledger: Ledger) -> bool:
    with suppress(CannotWrite):
        return ledger.write_intent(SLEEP, 2.0) > 0
    return False


def execute(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_second_agent_is_refused_until_the_first_is_killed(url: str, opened: Open, repository: Path) -> None:
    second = opened(url)
    with other_agent(url, repository) as first:
        with pytest.raises(AlreadyRunning, match=rf"another agent has the ledger .*{first.pid}") as refused:
            second.claim()
        assert "url below [ledger]" in refused.value.hint
        # Whoever only looks, or writes by hand, is not kept out.
        assert opened(url).unfinished() == ()
        with pytest.raises(AlreadyRunning):
            second.write_intent(SLEEP, 1.0)
        with pytest.raises(AlreadyRunning):
            second.remember_marks([MARK])
        assert (second.unfinished(), second.marks()) == ((), ())
    second.claim()
    assert second.write_intent(SLEEP, 1.0)


def test_a_claim_can_be_confirmed_and_given_up(url: str, opened: Open) -> None:
    first, second = opened(url), opened(url)
    for _ in range(2):
        first.claim()
    first.close()
    second.claim()
    second.remember_marks([MARK])
    assert second.marks() == (MARK,)


def test_a_ledger_that_nobody_claimed_is_written_by_hand_beside_an_agent(
    url: str, opened: Open, repository: Path
) -> None:
    with other_agent(url, repository):
        assert opened(url).write_intent(SLEEP, 1.0)


def test_a_folder_that_is_not_there_is_tried_again(tmp_path: Path, opened: Open) -> None:
    ledger = opened(f"sqlite:///{tmp_path}/later/ledger.sqlite")
    with pytest.raises(CannotWrite, match=r"ledger\.sqlite\.lock: cannot be opened"):
        ledger.claim()
    (tmp_path / "later").mkdir()
    ledger.confirm_claim()
    with pytest.raises(AlreadyRunning):
        opened(ledger.settings.url).claim()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_is_claimed_anew(url: str, opened: Open) -> None:
    first = opened(url)
    first.claim()
    execute(url, f"SELECT pg_terminate_backend(pid) FROM ({HOLDER.text}) AS holder")
    assert first.write_intent(SLEEP, 1.0)
    with pytest.raises(AlreadyRunning):
        opened(url).claim()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_an_agent_whose_connection_was_lost_gives_no_order_once_another_has_the_ledger(
    url: str, opened: Open, repository: Path
) -> None:
    first = opened(url)
    first.claim()
    execute(url, f"SELECT pg_terminate_backend(pid) FROM ({HOLDER.text}) AS holder")
    with other_agent(url, repository):
        with pytest.raises(AlreadyRunning, match="another agent has the ledger"):
            first.write_intent(SLEEP, 1.0)
        with pytest.raises(AlreadyRunning):
            first.confirm_claim()
    first.confirm_claim()
    assert first.write_intent(SLEEP, 2.0)


@pytest.mark.thorough
def test_a_database_that_is_away_refuses_orders_and_is_claimed_when_it_is_back(opened: Open) -> None:
    with new_postgres() as server:
        with server.up():
            ledger = opened(server.create("away"), patience_s=1.0)
            ledger.claim()
            ledger.ready()
        with pytest.raises(CannotWrite, match="away"):
            ledger.write_intent(SLEEP, 1.0)
        with server.up():
            wait_until(lambda: writes(ledger), what="the ledger to answer again")
            with pytest.raises(AlreadyRunning):
                opened(ledger.settings.url).claim()
            ledger.close()


@pytest.mark.thorough
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_database_that_hangs_holds_up_neither_an_order_nor_the_end(url: str, opened: Open) -> None:
    ledger = opened(url)
    ledger.claim()
    ledger.ready()
    hanging = backend_of_claim(url)
    os.kill(hanging, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as threads:
            try:
                order = threads.submit(ledger.write_intent, SLEEP, 1.0)
                with pytest.raises(CannotWrite, match="did not answer"):
                    order.result(timeout=40)
                threads.submit(ledger.close, 1.0).result(timeout=40)
            finally:
                os.kill(hanging, signal.SIGCONT)
    finally:
        ledger.close()


def backend_of_claim(url: str) -> int:
    engine = writing_engine(url)
    with engine.begin() as connection:
        pid = connection.execute(HOLDER).one().pid
    engine.dispose()
    return int(pid)
