"""Killed between intent and outcome: the next start looks, writes down what it finds, and sends nothing again blind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from file_journal import FileJournal
from guarded_room import ALL_OPEN, OFF, GuardedRoom, guarded_room
from memory_journal import MemoryJournal

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import Outcome, Refusal
from offpeak.power.door.node_orders import make_outcome, reconcile
from offpeak.power.interlocks.preconditions import StateReading

SOFT_OFF = 5


@pytest.mark.parametrize(("moment", "reported", "state"), [("before", {}, "on"), ("after", {"n1": [SOFT_OFF]}, "off")])
def test_agent_killed_between_intent_and_outcome_is_reconciled(
    moment: str, reported: dict[str, list[int]], state: str, tmp_path: Path, repository: Path
) -> None:
    with guarded_room(tmp_path) as room:
        script = Path(__file__).with_name("killed_agent.py")
        environment = os.environ | {"PYTHONPATH": str(repository)}
        done = subprocess.run([sys.executable, script, tmp_path, moment], env=environment, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert room.reported() == reported
        wait_until(lambda: room.do(lambda each: each.nodes["n1"].powered) == (state == "on"), what="the node")

        journal = FileJournal(tmp_path / "journal")
        assert [intent.effect.inputs for intent in journal.unfinished()] == [(("idle_s", 3600.0),)]
        ((_, outcome),) = room.run(reconcile(journal, lambda node: _look(room, node), room.clock))
        assert outcome == Outcome("interrupted", f"found {state} after a restart")
        assert journal.unfinished() == ()
        assert room.reported() == reported

        # What may have been sent counts as sent.
        room.look()
        room.seen["n1"] = StateReading("on", room.clock())
        refusal = room.run(room.orders(ALL_OPEN, journal=journal).order(OFF))
        assert isinstance(refusal, Refusal)
        assert refusal.rule == "just_ordered"
        assert room.reported() == reported


async def _look(room: GuardedRoom, node: str) -> StateReading:
    observed = await room.ways.bmc_of(node).query()
    return StateReading(observed.state, observed.at_unix_s)


def test_a_journal_without_loose_ends_needs_nobody() -> None:
    async def nobody(_node: str) -> StateReading:
        raise AssertionError

    assert asyncio.run(reconcile(MemoryJournal(), nobody, lambda: 0.0)) == ()


@pytest.mark.parametrize(
    ("state", "reply"),
    [("standby", "found standby after a restart"), ("unknown", "found in an unknown state after a restart")],
)
def test_reconciled_outcome_is_reported(state: str, reply: str) -> None:
    assert make_outcome(StateReading(state, 1.0)) == Outcome("interrupted", reply)
