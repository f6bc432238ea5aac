"""The ledger as the door's journal: an intent is on the disk before its act."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from ledger_sums import count, rows_of
from pytest_mock import MockerFixture

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import SCHEDULER, Effect, Hold, Outcome, Refusal
from offpeak.door.journal import Intent, Journal
from offpeak.errors import BadInput, CannotWrite
from offpeak.ledger import tables, writer
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, NodeStateRecord
from offpeak.ledger.tables import decisions
from offpeak.ledger.writer import LedgerStore
from offpeak.model.orders import NodeOrder

pytestmark = pytest.mark.quick

SLEEP = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle for 20 min", (("idle_s", 1200.0), ("rule", "timeout")))
PATIENCE_S = 300.0

DIES = """\
import os, signal, sys, time
from offpeak.door.effect import Effect
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder
from offpeak.settings.ledger import LedgerSettings

ledger = Ledger(LedgerSettings(url=sys.argv[1]), patience_s=60.0)
number = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 50.0)
print(number, flush=True)
time.sleep(3600)
"""


def test_an_intent_is_unfinished_until_its_outcome_is_written(ledger: Ledger) -> None:
    journal: Journal = ledger
    number = journal.write_intent(SLEEP, 100.0)
    other = journal.write_intent(Effect("n2", NodeOrder.ON, "admin ann", "asked"), 101.0)
    assert other > number
    assert journal.unfinished() == (
        Intent(number, SLEEP, 100.0),
        Intent(other, Effect("n2", NodeOrder.ON, "admin ann", "asked"), 101.0),
    )
    journal.write_outcome(number, Outcome("done", "accepted"), 102.0)
    journal.write_outcome(number, Outcome("failed", "said later"), 103.0)
    journal.write_refusal(SLEEP, Refusal("held", "ann holds it"), 104.0)
    assert ledger.settle()
    assert [intent.number for intent in journal.unfinished()] == [other]
    assert ledger.problem() is None


def test_an_intent_outlives_a_kill_between_it_and_its_outcome(url: str, opened: Callable[..., Ledger]) -> None:
    with subprocess.Popen([sys.executable, "-c", DIES, url], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout
        number = int(agent.stdout.readline())
        os.kill(agent.pid, signal.SIGKILL)
    (found,) = opened(url).unfinished()
    assert (found.number, found.effect.subject, found.at_unix_s) == (number, "n1", 50.0)


def test_waiting_rows_are_written_on_close(url: str, opened: Callable[..., Ledger]) -> None:
    first = opened(url)
    number = first.write_intent(SLEEP, 100.0)
    first.write_outcome(number, Outcome("done", "accepted"), 102.0)
    assert first.close() == 0
    assert opened(url).unfinished() == ()


def test_intents_are_numbered_upwards_however_the_clock_goes(ledger: Ledger) -> None:
    numbers = [ledger.write_intent(SLEEP, at_unix_s) for at_unix_s in (7200.0, 3600.0, 3600.0)]
    assert numbers == sorted(set(numbers))
    assert [intent.at_unix_s for intent in ledger.unfinished()] == [7200.0, 3600.0, 3600.0]


def intents_at_once(ledger: Ledger, count: int) -> list[Future[int]]:
    """Write intents in threads of their own, each about another node, while the writer is busy."""
    busy, goes_on = threading.Event(), threading.Event()

    def occupy(_: object) -> None:
        busy.set()
        assert goes_on.wait(PATIENCE_S)

    with ThreadPoolExecutor(count + 1) as threads:
        occupied = threads.submit(ledger._ask, occupy)
        assert busy.wait(PATIENCE_S)
        written = [threads.submit(ledger.write_intent, replace(SLEEP, subject=f"n{at}"), at) for at in range(count)]
        batch = wait_for(lambda: ledger._batch)
        wait_until(lambda: len(batch.rows) == count, what="all intents to wait")
        goes_on.set()
        occupied.result()
    return written


def wait_for(found: Callable[[], Any]) -> Any:
    wait_until(lambda: found() is not None, what="the first intent")
    return found()


def test_intents_that_wait_together_are_one_transaction(
    ledger: Ledger, opened: Callable[..., Ledger], mocker: MockerFixture
) -> None:
    transactions = mocker.spy(LedgerStore, "transaction")
    numbers = [future.result() for future in intents_at_once(ledger, 12)]
    assert transactions.call_count == 2  # that which kept the writer busy, and theirs
    assert ledger.open_intents == set(numbers)
    known = {intent.number: intent.effect.subject for intent in opened(ledger.settings.url).unfinished()}
    assert known == {number: f"n{at}" for at, number in enumerate(numbers)}


def test_intents_whose_transaction_fails_are_not_written(ledger: Ledger, mocker: MockerFixture) -> None:
    mocker.patch("offpeak.ledger.journal.insert", side_effect=ValueError("no row"))
    for future in intents_at_once(ledger, 3):
        with pytest.raises(ValueError, match="no row"):
            future.result()
    mocker.stopall()
    assert (ledger.open_intents, ledger.unfinished()) == (set(), ())
    number = ledger.write_intent(SLEEP, 5.0)
    assert [intent.number for intent in ledger.unfinished()] == [number]


def test_an_intent_that_nobody_waits_for_is_not_written(ledger: Ledger) -> None:
    busy, goes_on, bound_s = threading.Event(), threading.Event(), ledger._bound_s

    def occupy(_: object) -> None:
        busy.set()
        assert goes_on.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as threads:
        occupied = threads.submit(ledger._ask, occupy)
        assert busy.wait(PATIENCE_S)
        ledger._bound_s = 0.2
        with pytest.raises(CannotWrite, match=r"did not answer within 0\.2 s"):
            ledger.write_intent(SLEEP, 5.0)
        ledger._bound_s = bound_s
        goes_on.set()
        occupied.result()
    assert (ledger._batch, ledger.unfinished()) == (None, ())


def test_a_hold_belongs_to_its_owner(ledger: Ledger) -> None:
    ledger.hold("n1", Hold("ann", "new firmware"), 100.0)
    ledger.hold("n2", Hold("bob", "tests", until_unix_s=200.0), 100.0)
    with pytest.raises(BadInput, match="n1: is held by ann: new firmware"):
        ledger.hold("n1", Hold("bob", "mine"), 150.0)
    ledger.hold("n1", Hold("ann", "longer", until_unix_s=900.0), 150.0)
    assert [(node, hold.reason) for node, hold in ledger.holds(150.0).items()] == [("n1", "longer"), ("n2", "tests")]
    assert list(ledger.holds(200.0)) == ["n1"]
    with pytest.raises(BadInput, match="n1: is held by ann: longer"):
        ledger.release("n1", by="admin bob", at_unix_s=300.0)
    ended = ledger.release("n1", by="admin bob", at_unix_s=300.0, take_over=True)
    assert ended == Hold("ann", "longer", 900.0)
    assert ledger.holds(301.0) == {}
    assert ledger.release("n1", by="bob", at_unix_s=301.0) is None


def test_rows_are_written_soon_without_being_requested(ledger: Ledger) -> None:
    ledger.write_decisions([DecisionRecord(1.0, "n1", "sleep", "idle")])
    wait_until(lambda: count(ledger.settings.url, decisions) == 1, what="a decision to be written")


def test_an_intent_does_not_wait_for_the_rows_that_are_gathered(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PAUSE_S", 3600.0)
    ledger.write_decisions([DecisionRecord(1.0, "n1", "sleep", "idle")])
    assert ledger.write_intent(SLEEP, 100.0)


def test_recent_intents_have_their_outcomes(ledger: Ledger) -> None:
    effect = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle", (("idle_s", 900.0), ("way", "bmc")))
    early, late, ahead = (ledger.write_intent(effect, at) for at in (100.0, 200.0, 9_000.0))
    ledger.write_outcome(late, Outcome("failed", "refused", "AccessRefused"), 201.0)
    done = ledger.recent(150.0)
    assert [result.intent.number for result in done] == [late, ahead]
    assert done[0].intent.effect == effect
    assert done[0].outcome == Outcome("failed", "refused", "AccessRefused")
    assert (done[0].ended_unix_s, done[1].outcome, done[1].ended_unix_s) == (201.0, None, None)
    assert early == ledger.unfinished()[0].number


def test_the_latest_state_of_every_node(ledger: Ledger) -> None:
    ledger.write_states(
        [NodeStateRecord("n1", 50.0, "on", "", "scheduler"), NodeStateRecord("n2", 60.0, "off", "off", "offpeak")]
    )
    ledger.write_states([NodeStateRecord("n1", 70.0, "off", "soft_off", "offpeak", "idle")])
    latest = ledger.latest()
    assert latest["n1"] == NodeStateRecord("n1", 70.0, "off", "soft_off", "offpeak", "idle")
    assert latest["n2"].observed == "off"


def test_of_the_same_refusals_one_an_hour_is_kept(ledger: Ledger) -> None:
    for minute in range(0, 121, 10):
        ledger.write_refusal(
            Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), Refusal("mode", "shadow"), 60.0 * minute
        )
    ledger.write_refusal(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), Refusal("held", "ann holds it"), 7210.0)
    for second in (7211.0, 7212.0):
        ledger.write_refusal(
            Effect("n1", NodeOrder.SOFT_OFF, "admin:ann", "disk"), Refusal("held", "ann holds it"), second
        )
    assert ledger.settle()
    at_s = [row[1] for row in rows_of(ledger, tables.refusals)]
    assert at_s == [0.0, 3600.0, 7200.0, 7210.0, 7211.0, 7212.0]


def test_a_wake_for_the_scheduler_is_no_last_order(ledger: Ledger) -> None:
    """The node belongs to the scheduler for its job, and sleeps for offpeak; an order to sleep by it is one."""
    sleep = ledger.write_intent(SLEEP, 100.0)
    wake = ledger.write_intent(Effect("n1", NodeOrder.ON, SCHEDULER, "for job 7"), 101.0)
    ledger.write_outcome(sleep, Outcome("done", "accepted"), 100.5)
    ledger.write_outcome(wake, Outcome("done", "accepted"), 102.0)
    assert ledger.settle()
    assert ledger.last_orders() == (Intent(sleep, SLEEP, 100.0),)
    by_scheduler = replace(SLEEP, by=SCHEDULER)
    number = ledger.write_intent(by_scheduler, 103.0)
    assert ledger.settle()
    assert ledger.last_orders() == (Intent(number, by_scheduler, 103.0),)


def test_a_wake_that_was_not_accepted_is_no_last_order(ledger: Ledger) -> None:
    for result in ("failed", "interrupted", ""):
        sleep = ledger.write_intent(SLEEP, 100.0)
        wake = ledger.write_intent(Effect("n1", NodeOrder.ON, "offpeak", "needed"), 101.0)
        ledger.write_outcome(sleep, Outcome("done", "accepted"), 100.5)
        if result:
            ledger.write_outcome(wake, Outcome(result, ""), 102.0)
        assert ledger.settle()
        assert ledger.last_orders() == (Intent(sleep, SLEEP, 100.0),)
    ledger.write_outcome(wake, Outcome("done", "accepted"), 103.0)
    assert ledger.settle()
    assert [order.effect.order for order in ledger.last_orders()] == ["on"]
