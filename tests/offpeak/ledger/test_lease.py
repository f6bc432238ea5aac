"""Only one agent acts with a ledger: a locked file on one machine, a lease in PostgreSQL for a pair of head nodes."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from postgres_server import new_postgres
from sqlalchemy import make_url, text

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import Effect
from offpeak.errors import CannotWrite
from offpeak.ledger.database import claiming_engine, writing_engine
from offpeak.ledger.lease import LONGEST_S, READ, DatabaseLease, file_system_of, timelines
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.model.clock import boot_s
from offpeak.model.orders import NodeOrder
from offpeak.process import AlreadyRunning
from offpeak.settings.ledger import LedgerSettings

Open = Callable[..., Ledger]
SLEEP = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
MARK = JobMark("1", 1.0, "rank", 1, 2, 1.0)
LEASE_S = 300
"""So long that no test outlasts it: a test ends the lease by hand, or steps the clock over its end."""
SOON_S = 5
"""The lease of a holder that is to lose it."""
PATIENCE_S = 300.0
POSTGRESQL = pytest.mark.parametrize("url", ["postgresql"], indirect=True)

AGENT = """\
import sys, time
from offpeak.door.effect import Effect
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder
from offpeak.settings.ledger import LedgerSettings
ledger = Ledger(LedgerSettings(url=sys.argv[1], lease_s=float(sys.argv[2])), patience_s=60.0)
ledger.claim()
ledger.ready()
print("claimed", flush=True)
for line in sys.stdin:
    try:
        print(ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0), flush=True)
    except Exception as problem:
        print(type(problem).__name__, ledger.may_act(), flush=True)
"""


class OtherAgent:
    """Another process with a ledger, which writes an intent when it is asked to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.pid = process, process.pid

    def write_intent(self) -> str:
        """Return the number of the intent, or the error and whether it believes that it may act."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextmanager
def other_agent(url: str, repository: Path, *, lease_s: float = LEASE_S) -> Iterator[OtherAgent]:
    """Let another process claim the ledger; it is killed at the end."""
    environment = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", AGENT, url, str(lease_s)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "claimed\n"
            yield OtherAgent(process)
        finally:
            process.send_signal(signal.SIGKILL)


def settings_of(url: str, lease_s: float = LEASE_S) -> LedgerSettings:
    return LedgerSettings(url=url, lease_s=lease_s)


@pytest.fixture
def pair(url: str) -> Iterator[Callable[[], Ledger]]:
    """Opens ledgers with a long lease that are closed after the test."""
    made: list[Ledger] = []

    def open_() -> Ledger:
        made.append(Ledger(settings_of(url)))
        return made[-1]

    yield open_
    for ledger in made:
        ledger.close()


def has_claimed(ledger: Ledger) -> bool:
    with suppress(AlreadyRunning, CannotWrite):
        ledger.claim(stands_by=True)
        return True
    return False


def wait_for_claim(ledger: Ledger) -> None:
    wait_until(lambda: has_claimed(ledger), what="the lease", every_s=0.1)


def pass_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let as much time pass for the ledgers of this process as a lease lasts."""
    monkeypatch.setattr("offpeak.ledger.lease.boot_s", lambda: boot_s() + LEASE_S)


def writes(ledger: Ledger) -> bool:
    ledger.lease._look.set()
    with suppress(CannotWrite):
        return ledger.write_intent(SLEEP, 2.0) > 0
    return False


def row(url: str) -> Any:
    engine = claiming_engine(url, "test")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT * FROM lease")).one()
    engine.dispose()
    return found


def execute(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
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
    # Nobody waits for a lease that was given back.
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


def test_a_disk_that_becomes_read_only_keeps_no_agent_from_its_end(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger.claim()

    def write_text(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", write_text)
    assert ledger.close() == 0
    opened(ledger.settings.url).claim()


MOUNTS = """\
22 1 254:1 / / rw - ext4 /dev/vda1 rw
40 22 0:50 / {shared} rw,relatime shared:1 - nfs4 files:/home rw,local_lock=all
"""


def test_hosts_that_share_a_disk_need_postgresql(tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = MOUNTS.format(shared=tmp_path).splitlines()
    assert file_system_of(tmp_path / "ledger.sqlite.lock", mounts) == "nfs4"
    assert file_system_of(Path("/var/lib/offpeak"), mounts) == "ext4"
    monkeypatch.setattr("offpeak.ledger.lease.file_system_of", lambda *_: "nfs4")
    (tmp_path / "ledger.sqlite.lock").write_text("12 head1\n")
    ledger = opened(f"sqlite:///{tmp_path}/ledger.sqlite")
    with pytest.raises(AlreadyRunning, match=r"the agent of head1 \(process 12\) has this ledger.*nfs4") as refused:
        ledger.claim()
    assert "two-head-nodes.md" in refused.value.hint
    assert "remove ledger.sqlite.lock" in refused.value.hint
    # An agent that has ended in peace leaves nothing behind.
    (tmp_path / "ledger.sqlite.lock").write_text(f"12 {socket.gethostname()}\n")
    ledger.claim()
    ledger.close()
    assert (tmp_path / "ledger.sqlite.lock").read_text() == ""


@POSTGRESQL
def test_the_lease_passes_when_it_has_ended_and_its_token_grows(
    url: str, pair: Callable[[], Ledger], repository: Path
) -> None:
    second = pair()
    with other_agent(url, repository) as first:
        with pytest.raises(AlreadyRunning, match=rf"\(process {first.pid}\) is active") as refused:
            second.claim(stands_by=True)
        assert socket.gethostname() in refused.value.hint
        assert second.lease.state().text.endswith("is active")
        token = row(url).token
        assert first.write_intent() == "1"
    assert not has_claimed(second)
    execute(url, f"UPDATE lease SET until_unix_s = until_unix_s - {LEASE_S}")
    assert has_claimed(second)
    assert row(url).token == token + 1
    assert second.may_act()
    assert second.write_intent(SLEEP, 1.0) == 2
    assert "is active; no other agent stands by" in second.lease.state().text


@POSTGRESQL
def test_a_frozen_agent_that_wakes_writes_nothing_and_knows_it(
    url: str, pair: Callable[[], Ledger], repository: Path
) -> None:
    second = pair()
    with other_agent(url, repository, lease_s=SOON_S) as first:
        first.send(signal.SIGSTOP)
        wait_for_claim(second)
        assert second.write_intent(SLEEP, 1.0)
        first.send(signal.SIGCONT)
        assert first.write_intent() == "CannotWrite False"
        assert [intent.number for intent in second.unfinished()] == [1]
        assert not second.lease.lost_to


@POSTGRESQL
def test_an_agent_frozen_in_a_transaction_is_not_waited_for(url: str, pair: Callable[[], Ledger]) -> None:
    second = pair()
    first = Ledger(settings_of(url, SOON_S))
    first.claim()
    first.ready()
    thread, inserted, goes_on = ThreadPoolExecutor(1), Event(), Event()

    def insert_and_wait(connection: Any) -> None:
        connection.execute(text("INSERT INTO memory VALUES ('x', 'late', 1)"))
        inserted.set()
        assert goes_on.wait(PATIENCE_S)

    # The thread that renews is frozen, too.
    first.lease._turn.acquire()
    late = thread.submit(first._writer.call, insert_and_wait, bound_s=PATIENCE_S)
    try:
        assert inserted.wait(PATIENCE_S)
        wait_for_claim(second)
        assert second.remembered("x") is None
    finally:
        first.lease._turn.release()
        goes_on.set()
    with pytest.raises(CannotWrite):
        late.result(PATIENCE_S)
    assert second.remembered("x") is None
    wait_until(lambda: first.lease.lost_to != "", what="the first to know")
    first.close()


@pytest.mark.usefixtures("url")
@POSTGRESQL
def test_both_start_at_once(pair: Callable[[], Ledger]) -> None:
    pair().ready()
    for _ in range(5):
        agents = [pair() for _ in range(4)]
        with ThreadPoolExecutor() as threads:
            assert sum(threads.map(has_claimed, agents)) == 1
        for agent in agents:
            agent.close()


@POSTGRESQL
def test_a_lost_connection_loses_no_lease(url: str, pair: Callable[[], Ledger]) -> None:
    first = pair()
    first.claim()
    first.ready()
    token, until_s = row(url).token, row(url).until_unix_s
    everybody = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    execute(url, f"{everybody} AND datname = current_database() AND application_name LIKE 'offpeak %'")

    def is_renewed() -> bool:
        first.lease._look.set()
        return bool(row(url).until_unix_s > until_s)

    wait_until(is_renewed, what="a renewal")
    assert (row(url).token, first.may_act()) == (token, True)
    with pytest.raises(AlreadyRunning):
        pair().claim()


@POSTGRESQL
def test_a_row_that_a_restore_brings_back_is_renewed_again(url: str) -> None:
    first = Ledger(settings_of(url, SOON_S))
    first.claim()
    execute(url, "CREATE TABLE saved AS SELECT * FROM lease")
    execute(url, "DELETE FROM lease")
    wait_until(lambda: not first.may_act(), what="the end of the lease")
    wait_until(lambda: "No row was found" in first.lease.state().text, what="the agent to see it")
    execute(url, "INSERT INTO lease SELECT * FROM saved")
    wait_until(first.may_act, what="a renewal")
    first.close()


@POSTGRESQL
def test_a_server_that_vanishes_under_a_query_is_noticed_within_a_lease(url: str) -> None:
    engine = claiming_engine(url, "test", patience_s=1.5)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        given = driver.info.get_parameters()
    engine.dispose()
    assert int(given["keepalives_idle"]) + 3 * int(given["keepalives_interval"]) <= 15


@POSTGRESQL
def test_a_host_whose_clock_differs_takes_no_lease(url: str, pair: Callable[[], Ledger]) -> None:
    pair().ready()
    ahead = DatabaseLease(url, LEASE_S, clock=lambda: time.time() + 300)
    with pytest.raises(CannotWrite, match=r"clock is 3\d\d s ahead of the database's") as refused:
        ahead.acquire()
    assert "chronyc" in refused.value.hint
    assert "s ahead of the database's" in ahead.state().text
    pair().claim()
    ahead.close()


@POSTGRESQL
def test_a_clock_of_the_database_that_goes_back_keeps_no_dead_holder(
    url: str, pair: Callable[[], Ledger], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = pair()
    with other_agent(url, repository):
        token = row(url).token
    assert not has_claimed(second)
    second.lease._clock = lambda: time.time() - 3600
    late = str(READ).replace("clock_timestamp()", "clock_timestamp() - INTERVAL '1 hour'")
    monkeypatch.setattr("offpeak.ledger.lease.READ", text(late))
    assert not has_claimed(second)
    pass_lease(monkeypatch)
    assert has_claimed(second)
    assert row(url).token == token + 1
    # Who has not seen the lease before the clock went back waits as long as the longest one lasts.
    third = pair()
    assert not has_claimed(third)
    assert third.lease._seen_until_s - boot_s() - LEASE_S == pytest.approx(LONGEST_S, abs=200)


@POSTGRESQL
def test_after_a_failover_of_the_database_nobody_acts_for_a_lease(
    url: str, pair: Callable[[], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair().ready()
    # The new primary server knows an old holder; the failed one may have known a later one.
    execute(url, "UPDATE lease SET token = 7, timeline = 99, holder = 'offpeak head1 12 abc', until_unix_s = 5")
    second = pair()
    second.claim()
    assert row(url).token == (1 << 32) + 1
    assert not second.may_act()
    assert "the database has failed over" in second.lease.state().text
    with pytest.raises(CannotWrite):
        second.write_intent(SLEEP, 1.0)
    pass_lease(monkeypatch)
    wait_until(lambda: writes(second), what="the end of the pause")


@POSTGRESQL
def test_each_server_of_an_address_is_asked_for_its_timeline(url: str) -> None:
    server = make_url(url)
    alone = server.set(host="127.0.0.1,127.0.0.1")
    with_ports = server.set(host=None, port=None, query={"host": [f"127.0.0.1:{server.port}"] * 2})
    for address, found in ((server, [0]), (alone, [0, 1, 1]), (with_ports, [0, 1, 1])):
        engine = claiming_engine(address.render_as_string(), "test")
        assert timelines(engine) == found
        engine.dispose()


@POSTGRESQL
def test_an_agent_whose_take_over_was_lost_with_the_database_ends(url: str, pair: Callable[[], Ledger]) -> None:
    second = pair()
    second.claim()
    second.ready()
    execute(url, "UPDATE lease SET token = 1, holder = 'offpeak head1 12 abc', until_unix_s = 5")
    with pytest.raises(CannotWrite):
        second.write_intent(SLEEP, 1.0)
    wait_until(lambda: second.lease.lost_to == "head1 (process 12)", what="the agent to see it")
    assert not second.may_act()


def test_a_database_that_is_away_ends_the_lease_and_brings_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_postgres() as server:
        with server.up():
            ledger = Ledger(settings_of(server.create("away")))
            ledger.claim()
            ledger.ready()
            assert ledger.may_act()
        with pytest.raises(CannotWrite, match="away"):
            ledger.write_intent(SLEEP, 1.0)
        # A node may still be woken without a record, until the lease ends.
        assert ledger.may_act()
        pass_lease(monkeypatch)
        assert not ledger.may_act()
        assert "gives no order" in ledger.lease.state().text
        with server.up():
            wait_until(lambda: writes(ledger), what="the ledger to answer again")
            with pytest.raises(AlreadyRunning):
                Ledger(ledger.settings).claim()
            ledger.close()


SITE = """\
[hardware]
inventory = "site.toml"
[agent]
nodes = "n1"
mode = "active"
state_folder = "state"
[ledger]
url = "{url}"
lease = "5s"
"""
INVENTORY = """\
[credentials]
bmc = {user = "admin", password_file = "password"}
[hardware.compute]
driver = "ipmi"
credential = "bmc"
[[machines]]
nodes = "n1"
hardware = "compute"
bmc = "127.0.0.9"
"""


@POSTGRESQL
def test_a_command_that_was_stopped_until_after_its_lease_runs_on_no_more(
    url: str, opened: Open, tmp_path: Path
) -> None:
    """Between the last check and the packet no check in the process helps: the other head node may act by now."""
    for name, lines in (("offpeak.toml", SITE.format(url=url)), ("site.toml", INVENTORY), ("password", "secret")):
        (tmp_path / name).write_text(lines)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "state").mkdir()
    opened(url).ready()
    command = (Path(sys.executable).with_name("offpeak"), "nodes", "n1", "wake", "--config", "offpeak.toml")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as order:
        wait_until(lambda: row(url).holder or order.poll() is not None, what="the lease of the command")
        time.sleep(1.0)
        order.send_signal(signal.SIGSTOP)
        time.sleep(SOON_S + 1.0)
        order.send_signal(signal.SIGCONT)
        order.communicate(timeout=60)
    assert order.returncode == -signal.SIGALRM


@POSTGRESQL
def test_a_database_that_hangs_holds_up_neither_an_order_nor_the_end(url: str) -> None:
    ledger = Ledger(settings_of(url))
    ledger.claim()
    ledger.ready()
    ledger._bound_s = 1.0
    hanging = backends(url)
    for each in hanging:
        os.kill(each, signal.SIGSTOP)
    try:
        ledger.lease._look.set()
        wait_until(ledger.lease._turn.locked, what="a renewal that hangs")
        with ThreadPoolExecutor() as threads:
            order = threads.submit(ledger.write_intent, SLEEP, 1.0)
            with pytest.raises(CannotWrite, match="did not answer"):
                order.result(PATIENCE_S)
            threads.submit(ledger.close, 1.0).result(PATIENCE_S)
    finally:
        for each in hanging:
            os.kill(each, signal.SIGCONT)


def backends(url: str) -> list[int]:
    engine = writing_engine(url, name="test")
    with engine.begin() as connection:
        found = connection.execute(
            text(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'offpeak %'"
            )
        ).scalars()
        pids = [int(pid) for pid in found]
    engine.dispose()
    return pids


def test_a_lease_that_was_never_taken_says_so_and_names_no_other_agent() -> None:
    state = DatabaseLease("postgresql://offpeak@127.0.0.1:1/none", LEASE_S).state()
    assert (state.is_active, state.has_peer) == (False, False)
    assert state.text == f"{socket.gethostname()} gives no order: its lease has ended"
