"""The breaker opens, tries again after a while, and is closed by what is done; a refused login is an admin's affair."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_journal import MemoryJournal

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.errors import BadSetting
from offpeak.model.orders import NodeOrder
from offpeak.power.drivers.port import NeededLogins
from offpeak.power.interlocks.rate_limits import Breaker, BreakerTerms

pytestmark = pytest.mark.quick

OFF = Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle")
BY_HAND = replace(OFF, by="admin ada")
DONE, FAILED = Outcome("done", ""), Outcome("failed", "bmc1: silent", "NoAnswer")
TERMS = BreakerTerms(failures=3, orders=5, pause_s=60.0)


@dataclass
class Time:
    """A clock that begins far from zero, where an age differs from a time."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """A breaker, a history, and a journal that outlives them."""

    def __init__(self) -> None:
        self.time, self.journal = Time(), MemoryJournal()
        self.history = EffectHistory(self.time)
        self.breaker = Breaker(self.history, TERMS, lambda _: NeededLogins())

    def ends(self, *outcomes: Outcome, effect: Effect = OFF) -> None:
        """Let effects begin and end a second later each."""
        for outcome in outcomes:
            self.ended(self.begun(effect), outcome)

    def begun(self, effect: Effect = OFF) -> tuple[int, int]:
        self.time.now_s += 1
        return self.history.begun(effect), self.journal.write_intent(effect, self.time.now_s)

    def ended(self, begun: tuple[int, int], outcome: Outcome) -> None:
        self.time.now_s += 1
        self.history.ended(begun[0], outcome)
        self.journal.write_outcome(begun[1], outcome, self.time.now_s)

    def restart(self) -> None:
        self.history = EffectHistory.of(self.journal, self.time.now_s, self.time)
        self.breaker = Breaker(self.history, TERMS, lambda _: NeededLogins())

    @property
    def is_open(self) -> bool:
        return self.breaker.for_all(OFF) is not None


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_so_many_failures_among_the_latest_open_it(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, DONE, DONE, DONE)
    assert not bench.is_open
    bench.ends(FAILED, FAILED)
    assert not bench.is_open
    bench.ends(FAILED)
    refusal = bench.breaker.for_all(OFF)
    assert refusal is not None
    message = "n1: too many orders failed, the last: bmc1: silent; one order is tried in 60 s"
    assert (refusal.rule, refusal.message) == ("breaker", message)
    assert refusal.hint == "a successful order by hand closes it: offpeak nodes NAME wake"


def test_devices_that_fail_before_the_order_count(bench: Bench) -> None:
    for kind in ("NoAnswer", "SlurmIsSilent", "KeyError", "WrongDevice", "", "SlurmIsSilent"):
        bench.history.refused(OFF, Refusal("identity", "n1: cannot tell", error_kind=kind))
    assert not bench.is_open
    bench.history.refused(OFF, Refusal("identity", "n1: cannot tell", error_kind="BadAnswer"))
    assert bench.is_open


def test_a_breaker_that_could_never_open_is_a_wrong_setting() -> None:
    with pytest.raises(BadSetting, match="6 among 5 orders can never be"):
        BreakerTerms(failures=6, orders=5, pause_s=60.0)


def test_wakes_wait_too(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, FAILED)
    assert bench.breaker.for_all(replace(OFF, order=NodeOrder.ON)) is not None


def test_interrupted_order_does_not_count_for_the_breaker(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, *[Outcome("interrupted", "")] * 5, FAILED)
    assert bench.is_open


def test_one_order_is_tried_after_the_pause_and_closes_it(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, FAILED)
    bench.time.now_s += 59.9
    assert bench.is_open
    bench.time.now_s += 0.1
    assert not bench.is_open
    trial = bench.begun()
    refusal = bench.breaker.for_all(OFF)
    assert refusal is not None
    assert refusal.message.endswith("one order is on trial")
    bench.ended(trial, DONE)
    assert not bench.is_open
    bench.ends(FAILED, FAILED)
    assert not bench.is_open


def test_a_trial_that_fails_is_another_pause(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, FAILED)
    bench.time.now_s += 60
    bench.ends(FAILED)
    assert bench.is_open
    bench.time.now_s += 60
    assert not bench.is_open


def test_order_sent_before_the_breaker_opened_does_not_close_it(bench: Bench) -> None:
    early = bench.begun()
    bench.ends(FAILED, FAILED, FAILED)
    bench.ended(early, DONE)
    assert bench.is_open


def test_an_admin_passes_and_closes_it(bench: Bench) -> None:
    bench.ends(FAILED, FAILED, FAILED)
    assert bench.breaker.for_all(BY_HAND) is None
    bench.ends(DONE, effect=BY_HAND)
    assert not bench.is_open


@given(results=st.lists(st.sampled_from([DONE, FAILED]), max_size=12), waits_s=st.lists(st.floats(0, 90), max_size=12))
def test_a_restart_knows_as_much(results: list[Outcome], waits_s: list[float]) -> None:
    bench = Bench()
    for result, wait_s in zip(results, waits_s, strict=False):
        bench.time.now_s += wait_s
        bench.ends(result)
    before = bench.breaker.for_all(OFF)
    bench.restart()
    assert bench.breaker.for_all(OFF) == before


REFUSED = Outcome("failed", "bmc1: refuses", "AccessRefused")


def login_breaker(history: EffectHistory) -> Breaker:
    def needed(effect: Effect) -> NeededLogins:
        return NeededLogins("nodes", "bmc") if effect.order == "standby" else NeededLogins("bmc", "bmc")

    return Breaker(history, TERMS, needed)


def test_a_refused_login_is_not_used_until_an_admin_has_mended_it() -> None:
    time = Time()
    history = EffectHistory(time)
    breaker = login_breaker(history)
    early = history.begun(OFF)
    history.ended(history.begun(OFF), REFUSED)
    history.ended(early, DONE)
    time.now_s = 80_000.0
    refusal = breaker.for_login(replace(OFF, subject="n2"))
    assert refusal is not None
    assert (refusal.rule, refusal.message) == ("refused_login", "n2: the login bmc was refused: bmc1: refuses")
    assert breaker.for_login(BY_HAND) is None
    history.ended(history.begun(BY_HAND), DONE)
    assert breaker.for_login(OFF) is None


def test_a_refusal_of_a_rule_is_about_the_login_that_it_used() -> None:
    history = EffectHistory(Time())
    breaker = login_breaker(history)
    standby = replace(OFF, order=NodeOrder.STANDBY)
    history.ended(history.begun(standby), REFUSED)
    assert breaker.for_login(standby) is not None
    assert breaker.for_login(OFF) is None
    history.refused(standby, Refusal("identity", "n1: cannot tell", error_kind="AccessRefused"))
    refusal = breaker.for_login(OFF)
    assert refusal is not None
    assert "the login bmc was refused" in refusal.message
