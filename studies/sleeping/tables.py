"""Tables of the study: every policy in all three ways, and the families at equal energy."""

from collections.abc import Sequence

from studies.report import Cell, Range, Table, range_of
from studies.sleeping.answers import Answers, cycles, delay_s, saved_pct
from studies.sleeping.experiment import ALWAYS_ON, FAMILIES, POLICIES, TIMEOUT

RANGES = "In brackets the lowest and the highest of the replays."
BOUND = "future known, no job moved"
FEWEST_REPLAYS = 6
"""Of fewer all may have one sign by chance."""


def policies_table(answers: Answers, logs: Sequence[str]) -> Table:
    """Return a row a log and policy."""
    return Table(
        "policies",
        "Every rule in three ways: energy, delay, cycles",
        "Saved: the share of the idle nodes' energy. Delay: how long nothing but sleeping nodes kept a job from "
        "starting, the mean over all jobs; delayed: the share of jobs for which that is not 0. Cycles: a node's and "
        "day's. Longer: the mean wait against nodes that are always on, in the same replays; it is more than chance if "
        f"no replay of at least {FEWEST_REPLAYS} has another sign. {RANGES}",
        (
            "log",
            "policy",
            "saved [%]",
            "delay [s]",
            "delayed [%]",
            "cycles",
            "mean wait [s]",
            "longer [s]",
            "more than chance",
            "slowdown",
        ),
        tuple(_policy_row(answers, log, policy) for log in logs for policy in POLICIES),
    )


def _policy_row(answers: Answers, log: str, policy: str) -> tuple[Cell, ...]:
    longer = answers.longer_s(log, policy)
    return (
        log,
        policy,
        answers.of(log, policy, saved_pct),
        answers.of(log, policy, delay_s),
        answers.of(log, policy, lambda result: result.delayed_pct),
        answers.of(log, policy, cycles),
        answers.of(log, policy, lambda result: result.wait_s),
        longer,
        _beyond_chance(longer, len(answers.each(log, policy))) if policy != ALWAYS_ON else None,
        answers.of(log, policy, lambda result: result.slowdown),
    )


def _beyond_chance(longer: Range, replays: int) -> str | None:
    if replays < FEWEST_REPLAYS:
        return None
    return "no" if longer.low <= 0 <= longer.high else "yes"


def equal_energy_table(answers: Answers, logs: Sequence[str]) -> Table:
    """Return a row a log and family where it saves as much as a time-out."""
    return Table(
        "equal-energy",
        "At equal energy",
        "Each family where it saves the same share of the idle energy: straight lines between its policies, replay by "
        "replay. Times: over the time-out's, in the same replays. Empty where a family does not save so much. Last: "
        f"the fewest cycles with which so much can be saved, were the future known and no job moved. {RANGES}",
        ("log", "saved [%]", "rule", "delay [s]", "times", "cycles", "times "),
        tuple(row for log in logs for row in _equal_rows(answers, log)),
    )


def _equal_rows(answers: Answers, log: str) -> list[tuple[Cell, ...]]:
    pct = answers.equal_energy_pct(log)
    rows: list[tuple[Cell, ...]] = [(log, str(pct), family, *_equal_cells(answers, log, family)) for family in FAMILIES]
    return [*rows, (log, str(pct), BOUND, *_bound_cells(answers, log, pct))]


def _equal_cells(answers: Answers, log: str, family: str) -> tuple[Range | None, ...]:
    pct = answers.equal_energy_pct(log)
    found: list[Range | None] = []
    for figure in (delay_s, cycles):
        own, timeout = (answers.at_energy(log, each, pct, figure) for each in (family, TIMEOUT))
        pairs = zip(own, timeout, strict=False)
        found += [_range(own), _range([here / there if here is not None and there else None for here, there in pairs])]
    return tuple(found)


def _bound_cells(answers: Answers, log: str, pct: int) -> tuple[float | None, ...]:
    least, timeout = answers.bound(log, pct), _range(answers.at_energy(log, TIMEOUT, pct, cycles))
    return 0.0, 0.0, least, least / timeout.mean if least is not None and timeout else None


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return range_of(known) if known else None
