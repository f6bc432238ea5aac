"""The tables of the experiments as CSV files: texts for readers, units in the headers."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.sleep_rules.bound import IdleLevels
from benchmarks.sleep_rules.experiments import FAMILIES, TIMEOUT, UNSEEN, Rule
from benchmarks.sleep_rules.replays import NODES, Part, Weeks, run, weeks_of
from offpeak.model.arrays import Int64
from offpeak.model.constants import MINUTE_S
from offpeak.sim_backend.nodes.bounds import gaps_of
from offpeak_studies.logs import usage_of
from offpeak_studies.sleeping.study import between

RESAMPLES = 1000
PERFECT = "future known, no job moved"
SEEN_MIN = (0, 5, 15, 30, 60, 120, 240)
OfLog = Mapping[Rule, Weeks]

EQUAL_HEADER = (
    "log", "saved [%]", "rule", "delay [s]", "delay, times", "cycles per node and day", "cycles, times",
    "delay avoided [%]", "cycles avoided [% of the possible]",
)  # fmt: skip


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def level(found: OfLog) -> float:
    """Return the share [%] at which rules are compared: about what a time-out of 20 minutes saves."""
    return (found[("timeout:1000s",)].saved_pct + found[("timeout:30min",)].saved_pct) / 2


def at_level(found: OfLog, family: str, pct: float) -> tuple[float, float] | None:
    """Return delay and cycles of a kind of rules at a share, on the lines between its rules; None out of its range."""
    rules = [found[rule] for rule in FAMILIES[family]]
    delay_s = between([(weeks.saved_pct, weeks.mean_delay_s) for weeks in rules], pct)
    cycles = between([(weeks.saved_pct, weeks.cycles_per_node_day) for weeks in rules], pct)
    return None if delay_s is None or cycles is None else (delay_s, cycles)


def idle_levels(part: Part) -> tuple[IdleLevels, float]:
    """Return the gaps of the nodes in the weeks that count, and the energy of the idle nodes [J], both if always on."""
    schedule = run(part, "always-on")
    power_w = np.full(len(part.jobs), NODES.running_w(1.0) / part.machine.units_per_node)
    gaps = gaps_of(usage_of(part.jobs, power_w, schedule, part.machine), part.machine.units_per_node)
    idle_j = float(weeks_of(part, schedule).idle_j.sum())
    return IdleLevels.of(gaps, NODES, part.begin_s, part.until_s), idle_j


def fewest_cycles(levels: IdleLevels, idle_j: float, weeks: Weeks, pct: float) -> float:
    """Return the fewest cycles per node and day that save a share of the idle energy, jobs unmoved."""
    return levels.fewest_cycles(pct / 100 * idle_j) / float(weeks.node_days.sum())


def equal_rows(log: str, found: OfLog, part: Part, seed: int) -> list[tuple[str, ...]]:
    """Return a row for each kind of rules that has run, with 95 % of RESAMPLES samples of the weeks in brackets."""
    pct, levels_of = level(found), idle_levels(part)
    timeout = at_level(found, TIMEOUT, pct)
    assert timeout is not None
    bound = fewest_cycles(*levels_of, found[FAMILIES[TIMEOUT][0]], pct)
    draws = np.random.default_rng(seed).integers(0, part.weeks, (RESAMPLES, part.weeks))
    rows = [
        _equal_row(log, found, family, pct, bound, draws)
        for family, rules in FAMILIES.items()
        if all(rule in found for rule in rules)
    ]
    last = (f"{bound:.2f}", f"{bound / timeout[1]:.2f}", "100", "100")
    return [*rows, (UNSEEN.get(log, log), f"{pct:.0f}", PERFECT, "0.0", "0.00", *last)]


def _equal_row(log: str, found: OfLog, family: str, pct: float, bound: float, draws: Int64) -> tuple[str, ...]:
    here, there = at_level(found, family, pct), at_level(found, TIMEOUT, pct)
    head = (UNSEEN.get(log, log), f"{pct:.0f}", family)
    if here is None or there is None:
        return (*head, "not reached", "", "", "", "", "")
    delay, cycles = here[0] / there[0], here[1] / there[1]
    if family == TIMEOUT:
        return (*head, f"{here[0]:.1f}", "1.00", f"{here[1]:.2f}", "1.00", "0", "0")
    sampled = [_times({rule: found[rule].take(draw) for rule in (*FAMILIES[family], *FAMILIES[TIMEOUT])}, family)
               for draw in draws]  # fmt: skip
    known = np.array([times for times in sampled if times is not None])
    low, high = np.percentile(known, (2.5, 97.5), axis=0)
    avoided = 100 * (there[1] - here[1]) / (there[1] - bound)
    return (
        *head,
        f"{here[0]:.1f}",
        f"{delay:.2f} ({low[0]:.2f} to {high[0]:.2f})",
        f"{here[1]:.2f}",
        f"{cycles:.2f} ({low[1]:.2f} to {high[1]:.2f})",
        str(round(100 * (1 - delay))),
        str(round(avoided)),
    )


def _times(found: OfLog, family: str) -> tuple[float, float] | None:
    pct = level(found)
    here, there = at_level(found, family, pct), at_level(found, TIMEOUT, pct)
    return None if here is None or there is None else (here[0] / there[0], here[1] / there[1])


RULES_HEADER = ("log", "rule", "saved [%]", "delay [s]", "cycles per node and day")


def rule_rows(log: str, found: OfLog) -> list[tuple[str, ...]]:
    """Return a row for each rule."""
    return [
        (
            UNSEEN.get(log, log),
            " ".join(rule),
            f"{weeks.saved_pct:.1f}",
            f"{weeks.mean_delay_s:.1f}",
            f"{weeks.cycles_per_node_day:.2f}",
        )
        for rule, weeks in found.items()
    ]


AHEAD_HEADER = (
    "log",
    "saved [%]",
    *(f"{minutes} min" for minutes in SEEN_MIN),
    "all",
    "gap from which all sleeps [min]",
)


def ahead_row(log: str, found: OfLog, part: Part) -> tuple[str, ...]:
    """Return by how much the cycles are those of a time-out if needs are known so long ahead, at equal energy."""
    pct, (levels, idle_j) = level(found), idle_levels(part)
    timeout = at_level(found, TIMEOUT, pct)
    assert timeout is not None
    node_days = float(found[FAMILIES[TIMEOUT][0]].node_days.sum())
    saved_j = pct / 100 * idle_j
    cells = [levels.cycles_seeing(saved_j, minutes * MINUTE_S) / node_days / timeout[1] for minutes in SEEN_MIN]
    perfect = fewest_cycles(levels, idle_j, found[FAMILIES[TIMEOUT][0]], pct) / timeout[1]
    shortest_min = levels.shortest_gap_s(saved_j) / MINUTE_S
    texts = [f"{max(cell, perfect):.2f}" if np.isfinite(cell) else f"{perfect:.2f}" for cell in cells]
    return (UNSEEN.get(log, log), f"{pct:.0f}", *texts, f"{perfect:.2f}", f"{shortest_min:.0f}")
