"""A short soak: two minutes of a small room. It proves nothing about memory, but that `make soak` can find things."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchmarks.soak.checks import lacking, wrong
from benchmarks.soak.figures import figures
from benchmarks.soak.footprint import rise_mib, slope_mib_per_h
from benchmarks.soak.plan import SoakPlan, own_network
from benchmarks.soak.run import soaked
from benchmarks.soak.seen import leaks_of
from benchmarks.soak.site import Look
from benchmarks.soak.truth import NodeTruth, PduTruth, Truth
from offpeak.model.orders import PowerState
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.meters.port import MeterResult, Reading

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


def test_a_short_soak_finds_nothing() -> None:
    plan = SoakPlan(own_network(), bmcs=12, pdus=4, sweeps=12, timeout_s=2.0, frozen_s=1.0)
    soak = asyncio.run(soaked(plan))
    assert (soak.seen.wrong, soak.seen.leaks, soak.seen.lacking) == ([], [], [])
    missed = [figure for figure in figures(soak) if not figure.reached and not figure.what.startswith("memory")]
    assert missed == []
    assert (soak.seen.faults["silent"] >= 12, soak.orders.given.total() > 0) == (True, True)


def test_what_is_wrong_is_found() -> None:
    cases = [
        (a_look(), "", []),
        (a_look(PowerState.OFF), "", ["n2, well: said to be off, and is on"]),
        (a_look(PowerState.UNKNOWN, None, None), "", []),
        (a_look(PowerState.OFF), "slow", ["n2, slow: said to be off, and is on"]),
        (a_look(PowerState.ON, None), "silent", ["n2, silent: said to be on, and is on"]),
        (a_look(bmc_w=210.0), "", ["n2 by dcmi, well: total said to be 210.0 W, and is 200.0 W"]),
        (a_look(outlet_w=0.0), "", ["p1 by snmp, well: outlet 1 said to be 0.0 W, and is 212.0 W"]),
    ]
    for look, fault, findings in cases:
        assert list(wrong(look, TRUTH, {"n2": fault} if fault else {})) == findings


def test_what_is_lacking_is_found() -> None:
    both = ["n2 by dcmi: total not known: None", "p1 by snmp: outlet 1 not known: None"]
    cases: list[tuple[Look, dict[str, str], list[str]]] = [
        (a_look(), {}, []),
        (a_look(PowerState.UNKNOWN), {}, ["n2: state not known: None"]),
        (a_look(PowerState.UNKNOWN, None), {"n2": "slow"}, []),
        (a_look(PowerState.UNKNOWN), {"n2": "drops orders"}, ["n2: state not known: None"]),
        (a_look(bmc_w=None, outlet_w=None), {}, both),
        (a_look(outlet_w=None), {"p1": "restarts"}, []),
    ]
    for look, faults, findings in cases:
        assert list(lacking(look, TRUTH, faults)) == findings


def test_a_second_session_and_growing_memory_are_found() -> None:
    assert list(leaks_of(TRUTH)) == []
    assert list(leaks_of(replace(TRUTH, nodes={"n2": replace(ON, sessions=2)}))) == ["n2: 2 sessions"]
    flat, growing = [100.0] * 360, [100.0 + sweep / 60 for sweep in range(360)]
    assert (slope_mib_per_h(flat, 10.0), rise_mib(flat)) == (pytest.approx(0.0), 0.0)
    assert slope_mib_per_h(growing, 10.0) == pytest.approx(6.0)
    assert rise_mib(growing) == pytest.approx(4.8)
