"""What went through is remembered over a restart, and no clock that is set makes it forget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_journal import MemoryJournal

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import KEPT_S, EffectHistory
from offpeak.model.orders import NodeOrder

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
DONE, FAILED = Outcome("done", ""), Outcome("failed", "no")


class Steady:
    def __init__(self) -> None:
        self.now_s = 500.0

    def __call__(self) -> float:
        return self.now_s


def test_entries_age_and_are_forgotten() -> None:
    steady = Steady()
    history = EffectHistory(steady)
    for at in range(3):
        number = history.begun(replace(OFF, subject=f"n{at}"))
        history.ended(number, DONE)
        steady.now_s += 60
    assert [entry.effect.subject for entry in history.within(121)] == ["n2", "n1"]
    assert [entry.effect.subject for entry in history.within(120)] == ["n2"]
    assert len(history.of_subject("n0")) == 1
    steady.now_s += KEPT_S
    history.begun(OFF)
    assert (history.of_subject("n0"), history.of_subject("n2"), len(history.of_subject("n1"))) == ((), (), 1)
    assert history.ends_after(0) == ()


def test_a_sweep_counts_from_its_beginning() -> None:
    history = EffectHistory()
    history.begun(OFF)
    history.begin_sweep()
    assert list(history.of_sweep()) == []
    history.begun(replace(OFF, subject="n2"))
    assert [entry.effect.subject for entry in history.of_sweep()] == ["n2"]


def test_ends_are_read_on_from_where_one_was() -> None:
    steady = Steady()
    history = EffectHistory(steady)
    first, second = history.begun(OFF), history.begun(replace(OFF, subject="n2"))
    history.ended(second, FAILED)
    ((number, entry),) = history.ends_after(0)
    assert (entry.effect.subject, entry.answer) == ("n2", FAILED)
    history.ended(first, DONE)
    history.refused(OFF, Refusal("identity", "no", error_kind="AccessRefused"))
    history.refused(OFF, Refusal("held", "no"))
    assert [type(end.answer) for _, end in history.ends_after(number)] == [Outcome, Refusal]
    steady.now_s += KEPT_S
    history.begun(OFF)
    history.ended(history.begun(OFF), DONE)
    assert [end.answer for _, end in history.ends_after(number)] == [DONE]


def test_a_restart_knows_what_the_journal_knows() -> None:
    journal, steady = MemoryJournal(), Steady()
    for at, (outcome, end) in enumerate([(DONE, 900.0), (FAILED, 800.0), (None, 0.0)]):
        number = journal.write_intent(replace(OFF, subject=f"n{at}"), 700.0 + at)
        if outcome:
            journal.write_outcome(number, outcome, end)
    history = EffectHistory.of(journal, 1000.0, steady)
    assert [(entry.effect.subject, entry.answer) for entry in history.within(3600)] == [
        ("n2", None),
        ("n1", FAILED),
        ("n0", DONE),
    ]
    assert [entry.ended_s for _, entry in history.ends_after(0)] == [300.0, 400.0]
    assert list(history.within(298)) == []
    assert list(history.of_sweep()) == []


@given(written=st.lists(st.floats(0, 1e6), max_size=20), now=st.floats(0, 1e6), back_s=st.floats(0, 1e5))
def test_a_clock_that_was_set_back_never_makes_anything_older(written: list[float], now: float, back_s: float) -> None:
    journal, steady = MemoryJournal(), Steady()
    for at_unix_s in written:
        journal.write_intent(OFF, at_unix_s)
    right, behind = (EffectHistory.of(journal, value, steady) for value in (now, now - back_s))
    for window_s in (60.0, 3600.0, KEPT_S):
        assert len(list(behind.within(window_s))) >= len(list(right.within(window_s)))
