"""A short soak: two minutes of a small room. It proves nothing about memory, but that `make soak` can find things."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchmarks.__main__ import row
from benchmarks.bars import Measured
from benchmarks.soak.checks import lacking, wrong
from benchmarks.soak.faults import DEAD, faults_of
from benchmarks.soak.figures import figures
from benchmarks.soak.footprint import rise_mib, slope_mib_per_h
from benchmarks.soak.ledger import EnergyLedger
from benchmarks.soak.plan import SoakPlan, own_network
from benchmarks.soak.run import soaked
from benchmarks.soak.seen import leaks_of
from benchmarks.soak.site import Look
from benchmarks.soak.truth import NodeTruth, PduTruth, Truth
from offpeak.model.orders import PowerState
from power.drivers.port import PowerObservation
from power.meters.port import MeterResult, Reading

ON = NodeTruth(on=True, power_w=200.0, energy_j=0.0, orders=0, sessions=1, left_sessions=0)
TRUTH = Truth({"n2": ON}, {"p1": PduTruth(212.0, {"1": 212.0, "2": 0.0})})


def a_look(state: PowerState = PowerState.ON, bmc_w: float | None = 200.0, outlet_w: float | None = 212.0) -> Look:
    """Return what is seen of a node that is on, and of its PDU."""
    of_bmc = MeterResult("n2", "dcmi", (Reading("n2", "dcmi", "total", bmc_w, 0.0, node="n2"),))
    parts_w: Mapping[str, float | None] = {"total": 210.0, "outlet 1": outlet_w, "outlet 2": 0.0}
    of_pdu = MeterResult(
        "p1", "snmp", tuple(Reading("p1", "snmp", part, power_w, 0.0) for part, power_w in parts_w.items())
    )
    return Look({"n2": PowerObservation(state, 0.0)}, {"n2": 0.01}, (of_bmc, of_pdu))


@pytest.mark.thorough
def test_a_short_soak_finds_nothing() -> None:
    plan = SoakPlan(own_network(), bmcs=12, pdus=4, sweeps=12, timeout_s=2.0, frozen_s=1.0)
    soak = asyncio.run(soaked(plan))
    assert (soak.seen.wrong, soak.seen.leaks, soak.seen.lacking) == ([], [], [])
    missed = [figure for figure in figures(soak) if not figure.reached and not figure.what.startswith("memory")]
    assert missed == []
    assert (soak.seen.faults["silent"] >= 12, soak.orders.given.total() > 0) == (True, True)


@pytest.mark.parametrize(
    ("look", "fault", "findings"),
    [
        (a_look(), "", []),
        (a_look(PowerState.OFF), "", ["n2, well: said to be off, and is on"]),
        (a_look(PowerState.UNKNOWN, None, None), "", []),
        (a_look(PowerState.OFF), "slow", ["n2, slow: said to be off, and is on"]),
        (a_look(PowerState.ON, None), "silent", ["n2, silent: said to be on, and is on"]),
        (a_look(bmc_w=210.0), "", ["n2 by dcmi, well: total said to be 210.0 W, and is 200.0 W"]),
        (a_look(outlet_w=0.0), "", ["p1 by snmp, well: outlet 1 said to be 0.0 W, and is 212.0 W"]),
    ],
)
def test_what_is_wrong_is_found(look: Look, fault: str, findings: list[str]) -> None:
    assert list(wrong(look, TRUTH, {"n2": fault} if fault else {})) == findings


@pytest.mark.parametrize(
    ("look", "faults", "findings"),
    [
        (a_look(), {}, []),
        (a_look(PowerState.UNKNOWN), {}, ["n2: state not known: None"]),
        (a_look(PowerState.UNKNOWN, None), {"n2": "slow"}, []),
        (a_look(PowerState.UNKNOWN), {"n2": "drops orders"}, ["n2: state not known: None"]),
        (
            a_look(bmc_w=None, outlet_w=None),
            {},
            ["n2 by dcmi: total not known: None", "p1 by snmp: outlet 1 not known: None"],
        ),
        (a_look(outlet_w=None), {"p1": "restarts"}, []),
    ],
)
def test_what_is_lacking_is_found(look: Look, faults: Mapping[str, str], findings: list[str]) -> None:
    assert list(lacking(look, TRUTH, faults)) == findings


def test_a_second_session_is_found() -> None:
    assert list(leaks_of(TRUTH)) == []
    assert list(leaks_of(replace(TRUTH, nodes={"n2": replace(ON, sessions=2)}))) == ["n2: 2 sessions"]


def dated(taken: MeterResult, at_s: float) -> MeterResult:
    return replace(taken, readings=tuple(replace(reading, at_unix_s=at_s) for reading in taken.readings))


def test_energy_is_held_against_what_was_taken_while_it_was_known() -> None:
    ledger = EnergyLedger(10.0)
    for step, taken in enumerate((a_look().taken, a_look().taken, (), a_look().taken)):
        at_s, energy_j = 10.0 * step, 2000.0 * step
        truth = replace(TRUTH, nodes={"n2": replace(ON, energy_j=energy_j)})
        ledger.pass_to(truth)
        at_that_time = (
            replace(result, readings=tuple(replace(r, at_unix_s=at_s) for r in result.readings)) for result in taken
        )
        ledger.read(at_that_time, truth)
    assert (ledger.true_j, ledger.off_percent, ledger.worst({})) == ({"n2": 4000.0}, 0.0, 0.0)


def test_memory_that_grows_is_found() -> None:
    flat, growing = [100.0] * 360, [100.0 + sweep / 60 for sweep in range(360)]
    assert (slope_mib_per_h(flat, 10.0), rise_mib(flat)) == (pytest.approx(0.0), 0.0)
    assert slope_mib_per_h(growing, 10.0) == pytest.approx(6.0)
    assert rise_mib(growing) == pytest.approx(4.8)


def test_faults_are_few_and_the_same_for_a_seed() -> None:
    plan = SoakPlan("127.0.0")
    drawn = list(faults_of(plan))
    assert drawn == list(faults_of(plan)) != list(faults_of(replace(plan, seed=2)))
    for faults in drawn:
        assert faults[DEAD] == "silent"
        assert sum(name in plan.bmc_hosts for name in faults) <= plan.bmcs // 10
        assert sum(name in plan.pdu_hosts for name in faults) <= plan.pdus // 10


def test_a_bar_of_nothing_at_all_is_a_bar() -> None:
    assert [row(Measured("leaks", count, "", 0, False, ""))[3] for count in (0, 1)] == ["reached", "MISSED"]
