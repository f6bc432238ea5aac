"""Caps on running nodes: measured curves, what a cap gains, and the caps that bring a draw down."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cap_curves import CURVE, curve_of
from offpeak.errors import BadInput
from offpeak.model.node_cap import (
    CapCurve,
    CapGain,
    CappableNode,
    best_priced_cap,
    cap_curve_named,
    cap_gain,
    make_cap,
    parse_cap_curve,
    plan_caps,
)

pytestmark = pytest.mark.quick

V100 = cap_curve_named("v100")


def gpu_node(
    name: str = "n1", *, fixed_w: float = 400.0, device_w: float = 800.0, least_w: float = 0.0
) -> CappableNode:
    return CappableNode(name, fixed_w + device_w, device_w, V100, least_w)


def gain_of(node: CappableNode, share: float, prices: tuple[float, float] | None = None) -> CapGain | None:
    return cap_gain(node, make_cap(node, round(share * node.device_w)), rest_w=0.0, prices=prices)


def test_the_bundled_curve_is_the_measured_one(shared: Path) -> None:
    assert CURVE.read_text() == curve_of(shared / "data" / "modern" / "gpu_caps" / "v100_cap_clock_sweep.csv")


def test_slowdown_at_945_mhz_is_what_was_measured() -> None:
    # matmul at 945 MHz: 44 % less power, 31 % less speed.
    slowdown = V100.slowdown(0.559)
    assert slowdown is not None
    assert slowdown[1] == pytest.approx(0.355, abs=0.06)
    assert V100.slowdown(1.0) == (0.0, 0.0)
    assert V100.slowdown(0.1) is None


@pytest.mark.parametrize(
    "text", ["w,d,s\n", "w,d,s\na,0.5,0.6\n", "w,d,s\na,0.5,0.6\na,1,0.5\n", "w,d,s\na,x,1\n", "w,d,s\na,0,0\na,1,1\n"]
)
def test_points_that_are_no_curve_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_cap_curve(text, "own.csv")


def test_a_curve_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadInput, match="v10: no such cap curve"):
        cap_curve_named("v10")


def test_a_cap_saves_energy_where_little_of_the_draw_is_fixed() -> None:
    gain = gain_of(gpu_node(fixed_w=40), 0.71)
    assert gain is not None
    assert gain.break_even < 1
    assert gain.refusal == ""


def test_a_cap_on_a_node_with_a_high_idle_share_is_refused_with_the_price_from_which_it_pays() -> None:
    node = gpu_node(fixed_w=800)
    gain = gain_of(node, 0.559)
    assert gain is not None
    assert gain.break_even > 1
    assert "a cap costs energy: 50% of the draw is fixed" in gain.refusal
    at_break_even = gain_of(node, 0.559, (100 * gain.break_even, 100.0))
    above = gain_of(node, 0.559, (101 * gain.break_even, 100.0))
    assert at_break_even is not None
    assert at_break_even.gain_per_h == pytest.approx(0.0, abs=1e-12)
    assert above is not None
    assert (above.gain_per_h or 0) > 0
    assert above.refusal == ""


def test_without_a_curve_nothing_is_known_and_nothing_is_capped() -> None:
    node = CappableNode("n1", 500.0, 300.0)
    assert gain_of(node, 0.8) is None
    plan = plan_caps([node], 100.0)
    assert plan.caps == ()
    assert plan.missing_w == 100.0
    assert list(plan.left) == ["n1"]


def test_the_flattest_part_of_each_curve_goes_first() -> None:
    flat = CapCurve("flat", (((0.5, 0.95), (1.0, 1.0)),))
    plan = plan_caps([gpu_node("steep"), CappableNode("flat", 900.0, 800.0, flat)], 400.0)
    assert [(cap.node, cap.cap_w) for cap in plan.caps] == [("flat", 400)]
    assert plan.missing_w == 0


def test_a_device_is_never_capped_below_what_it_accepts() -> None:
    plan = plan_caps([gpu_node(least_w=600.0), gpu_node("n2", least_w=900.0)], 1000.0)
    assert [(cap.node, cap.cap_w) for cap in plan.caps] == [("n1", 600)]
    assert plan.missing_w == pytest.approx(800.0)
    assert plan.left == {"n2": "its device is at its least cap already"}


@given(
    st.lists(st.tuples(st.floats(1, 3000), st.floats(1, 4000), st.floats(0, 4000)), max_size=8), st.floats(1, 20_000)
)
def test_caps_bring_what_was_asked_for_or_all_there_is(nodes: list[tuple[float, float, float]], shed_w: float) -> None:
    made = [
        CappableNode(f"n{number}", fixed + device, device, V100, least)
        for number, (fixed, device, least) in enumerate(nodes)
    ]
    plan = plan_caps(made, shed_w)
    most_w = sum(max(node.device_w - max(node.least_w or 0, V100.least_share * node.device_w), 0) for node in made)
    # A device takes whole watts.
    saved_w = sum(cap.saved_w for cap in plan.caps)
    assert saved_w >= min(shed_w, most_w) - 1
    assert saved_w <= min(shed_w, most_w) + len(made)
    by_name = {node.node: node for node in made}
    for cap in plan.caps:
        node = by_name[cap.node]
        assert cap == make_cap(node, cap.cap_w)
        assert 0 <= cap.cap_w <= node.device_w


@given(st.floats(100, 3000), st.floats(0, 3000), st.floats(1, 3000))
def test_a_cap_is_lowered_by_what_is_missing_or_to_the_least(device_w: float, saved_w: float, shed_w: float) -> None:
    node = CappableNode("n1", device_w + 100, device_w, V100, saved_w=saved_w)
    most_w = max((1 - V100.least_share) * device_w - saved_w, 0.0)
    plan = plan_caps([node], shed_w)
    if not plan.caps:
        assert (most_w < 1e-6, plan.missing_w) == (True, shed_w)
        return
    (cap,) = plan.caps
    assert min(shed_w, most_w) - 1 <= cap.saved_w - saved_w <= min(shed_w, most_w) + 1
    assert plan.missing_w == pytest.approx(max(shed_w - cap.saved_w + saved_w, 0.0))


def test_a_limit_of_the_whole_node_counts_what_it_draws_idle() -> None:
    node = CappableNode("n1", 500.0, 350.0, V100, least_w=100.0, offset_w=150.0)
    plan = plan_caps([node], 50.0)
    assert [cap.cap_w for cap in plan.caps] == [450]
    assert make_cap(node, 450) == plan.caps[0]


HOURS = st.lists(st.tuples(st.floats(-200, 800), st.floats(0, 500)), min_size=1, max_size=30)


@given(HOURS, st.floats(0, 300), st.floats(50, 1000), st.floats(0, 1))
def test_a_priced_cap_holds_in_the_hours_in_which_the_rule_gains(
    hours: list[tuple[float, float]], idle_w: float, device_w: float, asleep: float
) -> None:
    price, used_kwh = (np.array(column) for column in zip(*hours, strict=True))
    node = CappableNode("n", idle_w + device_w, device_w, cap_curve_named("v100"), offset_w=idle_w)
    cap = best_priced_cap(node, price, used_kwh, rest_w=idle_w * asleep)
    assert (cap is None) == (used_kwh.sum() == 0)
    if cap is None:
        return
    set_cap = make_cap(node, math.ceil(idle_w + cap.share * device_w))
    later = float(price @ used_kwh) / float(used_kwh.sum())
    money = 0.0
    for now, kwh in hours:
        gain = cap_gain(node, set_cap, rest_w=idle_w * asleep, prices=(now, later))
        assert gain is not None
        assert gain.gain_per_h is not None
        money += max(gain.gain_per_h, 0.0) * 1000 * kwh / device_w
    assert cap.money[0] == pytest.approx(money, abs=1e-6, rel=1e-6)
    assert cap.money[0] <= cap.money[1] + 1e-9 or later < 0
    assert 0 <= cap.longer <= cap.slowdown[1] + 1e-9
    assert cap.money[0] > 0 or cap.longer == 0 or later < 0 or cap.money[0] == pytest.approx(0, abs=1e-6)


def test_a_priced_cap_that_no_hour_pays_names_its_break_even_price() -> None:
    node = CappableNode("n", 300.0, 100.0, cap_curve_named("v100"), offset_w=200.0)
    cap = best_priced_cap(node, np.array([100.0, 100.0]), np.array([1.0, 3.0]), rest_w=0.0)
    assert cap is not None
    assert (cap.money, cap.saved_kwh, cap.longer) == ((0, 0), (0, 0), 0)
    assert cap.above > 100
    unknown = best_priced_cap(replace(node, curve=None), np.array([100.0]), np.array([1.0]), rest_w=0.0)
    assert unknown is None
