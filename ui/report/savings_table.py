"""The table of policies: the terminal's figures, with their intervals where the log was replayed many times."""

from collections.abc import Iterator
from dataclasses import replace

from sim_backend.outcome import Outcome
from sim_backend.spread import Spread
from ui.comparison_table import HEADERS, co2_cell, policy_row
from ui.report.html_text import Cell, paragraph, section, table
from ui.report.subject import Subject
from ui.spread_table import NOISE, spread_remark

FIGURES = (
    "",
    "cost",
    "saving_pct",
    "energy_kwh",
    "utilization",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "worst_postponement_s",
    "co2_kg",
)
"""The field of an Outcome that each column shows."""

WITH_RANGE = {"saving_pct", "mean_wait_s", "mean_bounded_slowdown", "worst_postponement_s"}
"""The figures that policies are chosen by. The range of the cost says little beside that of the saving."""

ONE_REPLAY = "One replay cannot tell chance from effect where differences are small; --replays 20 does."


def savings_section(subject: Subject) -> str:
    """Return the table with what to know of its intervals."""
    baseline = subject.comparison.outcomes[0]
    headers = HEADERS if baseline.co2_kg is not None else HEADERS[:-1]
    names = [header.replace("-\n", "").replace("\n", " ").format(currency=baseline.currency) for header in headers]
    rows = [_row(subject, outcome) for outcome in subject.comparison.outcomes]
    caption = f"Savings and postponements are against {baseline.policy}"
    remark = [paragraph(_remark(subject.spreads))] if subject.others else []
    return section("What each policy comes to", table(caption, names, rows), *remark)


def _row(subject: Subject, outcome: Outcome) -> tuple[Cell, ...]:
    is_first = outcome is subject.comparison.outcomes[0]
    spread = next((spread for spread in subject.spreads if spread.policy == outcome.policy), None)
    if spread is None:
        return tuple(Cell(text) for text in _texts(outcome, is_first=is_first))
    return tuple(_cells(outcome, spread, is_first=is_first))


def _texts(outcome: Outcome, *, is_first: bool) -> tuple[str, ...]:
    return (*policy_row(outcome, is_first=is_first), *co2_cell(outcome))


def _cells(outcome: Outcome, spread: Spread, *, is_first: bool) -> Iterator[Cell]:
    """Yield the mean of each figure over the replays, and the interval where it has one."""
    columns = (_texts(_outcome_at(outcome, spread, which), is_first=is_first) for which in ("mean", "low", "high"))
    for name, mean, low, high in zip(FIGURES, *columns, strict=False):
        varies = name in WITH_RANGE and low != high
        is_noise = varies and not is_first and spread.is_noise(name)
        yield Cell(
            mean, f"{low.removesuffix(' %')} to {high.removesuffix(' %')}" if varies else "", NOISE if is_noise else ""
        )


def _outcome_at(outcome: Outcome, spread: Spread, which: str) -> Outcome:
    values = {name: getattr(interval, which) for name, interval in spread.figures.items()}
    return replace(outcome, **values)


def _remark(spreads: tuple[Spread, ...]) -> str:
    if not spreads:
        return ONE_REPLAY
    return f"Means of {spread_remark(spreads)}."
