"""The arithmetic of the comparison: energy, cost, order of starts, waits, and node hours asleep of two runs."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.fidelity.replay import DAY_H, ON_PEAK_H, Run
from benchmarks.fidelity.workload import GROUPS, OFF_W, MixedDay
from offpeak.model.arrays import Float64

ON_PEAK_PRICE, OFF_PEAK_PRICE = 90.0, 30.0
"""EUR/MWh."""


class Figures(NamedTuple):
    """What a run needs until `until_h`: energy [kWh] and its cost [EUR], mean wait [h], node hours asleep.

    `off_eur` is the part of the cost that nodes spare while they are off.
    """

    energy_kwh: float
    cost_eur: float
    mean_wait_h: float
    asleep_node_h: float
    off_eur: float


def price_integral(at_h: Float64) -> Float64:
    """Return the integral of the price from hour 0 [EUR/MWh x h]."""
    days, hour = np.divmod(at_h, DAY_H)
    first, last = ON_PEAK_H
    peak_h = days * (last - first) + np.clip(hour - first, 0.0, last - first)
    cost: Float64 = OFF_PEAK_PRICE * at_h + (ON_PEAK_PRICE - OFF_PEAK_PRICE) * peak_h
    return cost


def figures(day: MixedDay, run: Run, until_h: float) -> Figures:
    """Return the figures of a run. What jobs leave of a node draws that share of the node's idle power."""
    span_h = run.end_h - run.start_h
    priced = price_integral(run.end_h) - price_integral(run.start_h)
    idle_w = sum(group.nodes * group.idle_w for group in GROUPS)
    # A job's draw replaces the idle draw of its share of the nodes.
    job_w = day.part_w * day.parts() - run.replaced_w
    off = np.array(run.asleep, dtype=np.float64).reshape(-1, 3)
    saved_w, off_h, on_h = off[:, 0] - OFF_W, *np.clip(off[:, 1:], 0.0, until_h).T
    whole = price_integral(np.array([until_h]))[0]
    watt_h = idle_w * until_h + (job_w * span_h).sum() - (saved_w * (on_h - off_h)).sum()
    off_eur = float((saved_w * (price_integral(on_h) - price_integral(off_h))).sum()) / 1e6
    cost_eur = float(idle_w * whole + (job_w * priced).sum()) / 1e6 - off_eur
    wait_h = float((run.start_h - day.submit_h).mean())
    return Figures(float(watt_h) / 1e3, cost_eur, wait_h, float((on_h - off_h).sum()), off_eur)


def saving(own: Figures, other: Figures) -> float:
    """Return the share of the cost that is saved."""
    return 1.0 - other.cost_eur / own.cost_eur


def spearman(one: Float64, other: Float64) -> float:
    """Return the correlation of the ranks."""
    mine, its = (np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in (one, other))
    return float(np.corrcoef(mine, its)[0, 1])


def nearest(start_h: Float64, engine: Mapping[str, Float64]) -> tuple[str, dict[str, float]]:
    """Return the policy whose replay starts the jobs in the most similar order, and the correlation with each."""
    found = {policy: spearman(start_h, other) for policy, other in engine.items()}
    return max(found, key=found.__getitem__), found
