"""Caps on the power of running nodes: how much a cap slows jobs down, what it gains, and which caps bring a draw down.

A capped device (a GPU, the processors, a whole node by its BMC) draws less and works more slowly. Its `CapCurve` holds
measured points; without a curve the slowdown is not known, and nothing decides by itself to cap such a node. Everything
here is pure: `cap_gain` says whether a cap saves energy and from which price on it saves money, `plan_caps` chooses the
caps that bring the draw of nodes down by a given power at the least slowdown.
"""

import csv
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64
from offpeak.text import did_you_mean

FULL = 1.0
"""The draw, and the speed, without a cap."""


@dataclass(frozen=True)
class CapCurve:
    """Measured speeds of a capped device, by workload: points (share of its full draw, share of its full speed).

    The points of a workload rise and end at (1, 1). Between them speeds lie on straight lines; below the first point
    nothing is known.
    """

    name: str
    workloads: tuple[tuple[tuple[float, float], ...], ...]

    @cached_property
    def least_share(self) -> float:
        """The least draw for which the speed of every workload is known."""
        return max(points[0][0] for points in self.workloads)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The draws of all points that every workload reaches, from the full one down."""
        found = {share for points in self.workloads for share, _ in points if share >= self.least_share}
        return tuple(sorted(found, reverse=True))

    def slowdown(self, share: float) -> tuple[float, float] | None:
        """Return the least and the most that workloads slow down at this share of the draw, None if not known."""
        if share < self.least_share:
            return None
        drawn = [tuple(zip(*points, strict=True)) for points in self.workloads]
        speeds = [float(np.interp(share, shares, speeds)) for shares, speeds in drawn]
        return FULL - max(speeds), FULL - min(speeds)


BUNDLED = files("offpeak") / "cap_curves"


@cache
def cap_curve_named(name: str) -> CapCurve:
    """Return a bundled curve, such as v100, or the curve in a CSV file. Raises BadInput."""
    if name.endswith(".csv"):
        return parse_cap_curve(read_bytes(Path(name), BadInput).decode(errors="replace"), name)
    known = sorted(entry.name.removesuffix(".csv") for entry in BUNDLED.iterdir() if entry.name.endswith(".csv"))
    if name not in known:
        raise BadInput(f"{name}: no such cap curve", hint=f"{did_you_mean(name, known)}, or the path of a .csv file")
    return parse_cap_curve((BUNDLED / f"{name}.csv").read_text(encoding="utf-8"), name)


def parse_cap_curve(text: str, name: str) -> CapCurve:
    """Return the curve of lines `workload,draw share,speed share`; lines with # are comments. Raises BadInput."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    points: dict[str, list[tuple[float, float]]] = {}
    for row in csv.reader(lines[1:]):
        try:
            workload, share, speed = row
            points.setdefault(workload, []).append((float(share), float(speed)))
        except ValueError:
            raise BadInput(
                f"{name}: {','.join(row)!r} is not a point", hint="workload,draw share,speed share"
            ) from None
    curve = CapCurve(name, tuple(tuple(sorted(each)) for each in points.values()))
    for each in curve.workloads:
        rises = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(each))
        if each[-1] != (FULL, FULL) or not rises or each[0][0] <= 0 or each[0][1] < 0:
            hint = "each workload rises from a share above 0 to the point 1,1"
            raise BadInput(f"{name}: the points of a workload are not a curve", hint=hint)
    if not curve.workloads:
        raise BadInput(f"{name}: has no points", hint="workload,draw share,speed share")
    return curve


@dataclass(frozen=True)
class CappableNode:
    """A running node whose device can be capped: `draw_w` is the node's draw, `device_w` the part that a cap lowers.

    The limit of the device counts `offset_w` beside that part: the idle draw of a node that its BMC limits. The limit
    is from `least_w` to `most_w`, None where the device does not say. `curve` is None if not known. A cap in force
    brings `saved_w` already; the draws are those without it.
    """

    node: str
    draw_w: float
    device_w: float
    curve: CapCurve | None = None
    least_w: float | None = None
    most_w: float | None = None
    offset_w: float = 0.0
    saved_w: float = 0.0


@dataclass(frozen=True)
class NodeCap:
    """A limit for the device of a node, what it saves, and the least and the most that jobs slow down; None: not known.

    A slowdown of 0.2 means 20 % less work in the same time.
    """

    node: str
    cap_w: int
    saved_w: float
    slowdown: tuple[float, float] | None = None


def make_cap(node: CappableNode, cap_w: int) -> NodeCap:
    """Return the cap with what it is expected to save and to slow down."""
    saved_w = max(node.device_w + node.offset_w - cap_w, 0.0)
    share = FULL - saved_w / node.device_w if node.device_w else FULL
    return NodeCap(node.node, cap_w, saved_w, node.curve.slowdown(share) if node.curve else None)


@dataclass(frozen=True)
class CapGain:
    """What a cap on one busy node brings while it holds, for the workload that slows down most.

    `break_even` is the price now, as a multiple of the price when the delayed work is made up for, above which the cap
    saves money; below 1 it also saves energy. `gain_per_h` is money, None without prices. `refusal` is the reason why
    the cap is not worth it, "" if it is.
    """

    break_even: float
    gain_per_h: float | None
    refusal: str = ""


def cap_gain(
    node: CappableNode, cap: NodeCap, *, rest_w: float, prices: tuple[float, float] | None = None
) -> CapGain | None:
    """Return what the cap gains, None if its slowdown is not known.

    The cap delays a part of the work, for which the node draws its full power later instead of `rest_w`, what it would
    draw then without a job (idle or asleep). A node whose fixed draw is large keeps that draw for longer, so that a cap
    costs energy there. `prices` are money per MWh, now and when the delayed work is done; None: only energy counts.
    """
    if cap.slowdown is None:
        return None
    delayed_w = cap.slowdown[1] * max(node.draw_w - rest_w, 0.0)
    break_even = delayed_w / cap.saved_w if cap.saved_w else math.inf
    now, later = prices or (1.0, 1.0)
    gain = cap.saved_w * now - delayed_w * later
    fixed = FULL - node.device_w / node.draw_w if node.draw_w else FULL
    refusal = (
        f"a cap costs {'money' if prices else 'energy'}: {fixed:.0%} of the draw is fixed, jobs slow down by up to"
        f" {cap.slowdown[1]:.0%}; it pays while electricity costs more than {break_even:.2f} times its price when the"
        " work is made up for"
    )
    return CapGain(break_even, gain / 1e6 if prices else None, "" if gain > 0 else refusal)


@dataclass(frozen=True)
class PricedCap:
    """What a cap brings that holds while a MWh costs more than `above`, at each bound of the slowdown, the most first.

    `share` is the device's draw under the cap. `longer` is the share by which runs become longer on average.
    """

    share: float
    slowdown: tuple[float, float]
    above: float
    money: tuple[float, float]
    saved_kwh: tuple[float, float]
    longer: float


def best_priced_cap(node: CappableNode, prices: Float64, device_kwh: Float64, *, rest_w: float) -> PricedCap | None:
    """Return the cap that saves most, by `cap_gain`, if devices use this energy at these prices of a MWh.

    If none saves money, it is the one that would do so at the lowest price. The delayed work is made up for at the mean
    price of the energy. None if nothing is used, or if no slowdown is known.
    """
    total_kwh, found = float(device_kwh.sum()), []
    later = float(prices @ device_kwh) / total_kwh if total_kwh else 0.0
    for share in node.curve.shares[1:] if node.curve and total_kwh and node.device_w else ():
        cap = make_cap(node, math.ceil(node.offset_w + share * node.device_w))
        gain = cap_gain(node, cap, rest_w=rest_w)
        if gain is None or cap.slowdown is None or not cap.saved_w:
            continue
        held_kwh = device_kwh * (prices > gain.break_even * later) * (cap.saved_w / node.device_w)
        factors = [gain.break_even * each / (cap.slowdown[1] or FULL) for each in reversed(cap.slowdown)]
        money = [float(held_kwh @ (prices - factor * later)) / 1000 for factor in factors]
        saved_kwh = [float(held_kwh.sum()) * (1 - factor) for factor in factors]
        longer = cap.slowdown[1] * (float(held_kwh.sum()) / total_kwh) * (node.device_w / cap.saved_w)
        above, both = gain.break_even * later, (saved_kwh[0], saved_kwh[1])
        found.append(PricedCap(share, cap.slowdown, above, (money[0], money[1]), both, longer))
    return max(found, key=lambda each: (each.money[0], -each.above), default=None)


@dataclass(frozen=True)
class CapPlan:
    """The caps that bring the draw down; `missing_w` is what they cannot bring. `left` has the reasons why nodes are
    not capped, or not further, by node.
    """

    caps: tuple[NodeCap, ...]
    missing_w: float
    left: dict[str, str]


NO_CURVE = "no measured curve says how much a cap slows its jobs down"
MIN_SAVED_W = 1.0
"""Devices take whole watts: a cap that saves less is no cap."""


def plan_caps(nodes: Sequence[CappableNode], shed_w: float) -> CapPlan:
    """Return the caps that bring the draw of these nodes down by `shed_w`, with the least slowdown for it.

    The power comes in steps from one point of a curve to the next: first those that slow jobs down least for each watt.
    A node without a curve is left alone, because its slowdown is not known.
    """
    left = {node.node: NO_CURVE for node in nodes if not node.curve}
    steps = {node.node: list(_steps(node)) for node in nodes if node.curve}
    left |= {name: "its device is at its least cap already" for name, each in steps.items() if not each}
    heap = [(each[0].cost, name, 0) for name, each in steps.items() if each]
    heapq.heapify(heap)
    before_w = {node.node: node.saved_w for node in nodes}
    saved_w, missing_w = dict(before_w), shed_w
    while heap and missing_w >= MIN_SAVED_W:
        _, name, number = heapq.heappop(heap)
        step_w = min(steps[name][number].saved_w, missing_w)
        saved_w[name] += step_w
        missing_w -= step_w
        if number + 1 < len(steps[name]):
            heapq.heappush(heap, (steps[name][number + 1].cost, name, number + 1))
    caps = tuple(
        make_cap(node, math.floor(node.offset_w + node.device_w - saved_w[node.node]))
        for node in nodes
        if saved_w[node.node] > node.saved_w
    )
    return CapPlan(caps, max(shed_w - sum(cap.saved_w - before_w[cap.node] for cap in caps), 0.0), left)


@dataclass(frozen=True)
class _Step:
    """From one point of a curve to the next: what it saves, and the slowdown for each watt of it."""

    saved_w: float
    cost: float


def _steps(node: CappableNode) -> Iterable[_Step]:
    curve = node.curve
    assert curve is not None
    least = max(curve.least_share, ((node.least_w or 0.0) - node.offset_w) / node.device_w if node.device_w else FULL)
    first = FULL - node.saved_w / node.device_w if node.device_w else FULL
    shares = [first, *(share for share in curve.shares if least < share < first), least]
    for share, next_share in pairwise(shares):
        before, after = curve.slowdown(share), curve.slowdown(next_share)
        saved_w = (share - next_share) * node.device_w
        if before and after and saved_w > 0:
            yield _Step(saved_w, (after[1] - before[1]) / saved_w)
