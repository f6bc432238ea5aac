"""The tables of policies: the terminal's figures, with their intervals where the log was replayed many times."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from sim_backend.outcome import PolicyOutcome
from sim_backend.replications import ReplicationSpread
from ui.figures_text import Unit
from ui.replay.comparison_table import PolicyUnits, policy_row, policy_units
from ui.replay.cooling_table import cooling_headers, cooling_row, energy_unit
from ui.replay.sleep_table import SLEEP_HEADERS, sleep_remark, sleep_row
from ui.replay.spread_table import NOISE, spread_remark
from ui.report.html_text import Cell, paragraph, section, table
from ui.report.subject import Subject, outcome_at

Texts = Callable[[PolicyOutcome, bool], tuple[str, ...]]
"""The cells of a policy; it is told whether it is the first."""

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

SLEEP_FIGURES = (
    "",
    "idle_saved_pct",
    "captured_pct",
    "asleep_share",
    "cycles_per_node_day",
    "delayed_share",
    "mean_sleep_delay_s",
    "above_sla_share",
)
"""The same of the table of sleep."""

COOLING_FIGURES = ("", "energy_kwh", "cooling_kwh", "pue", "cooling_cost", "", "cooled_saving_pct")
"""The same of the table of the machine room; what both cost has no field."""

WITH_RANGE = {
    "saving_pct",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "worst_postponement_s",
    "cooled_saving_pct",
    *SLEEP_FIGURES[1:],
}
"""The figures that policies are chosen by. The range of the cost says little beside that of the saving."""

ONE_REPLAY = "One replay cannot tell chance from effect where differences are small; --replays 20 does."


def savings_section(subject: Subject) -> str:
    """Return the tables with what to know of their intervals."""
    baseline = subject.comparison.outcomes[0]
    outcomes = subject.comparison.outcomes
    units = policy_units(outcomes)
    caption = f"Savings and postponements are against {baseline.policy}"
    tables = [_table(subject, caption, units.headers(), FIGURES, partial(_texts, units))]
    if subject.prepared.case.room is not None:
        texts = partial(_cooling_texts, energy_unit(outcomes))
        tables += [_table(subject, "The machine room", cooling_headers(outcomes), COOLING_FIGURES, texts)]
    if subject.can_sleep:
        tables += [_table(subject, "Nodes that sleep", SLEEP_HEADERS, SLEEP_FIGURES, _sleep_texts)]
        words = sleep_remark(subject.comparison.case.sla)
        tables += [paragraph(f"{words[0].upper()}{words[1:]}.")]
    remark = [paragraph(_remark(subject.spreads))] if subject.others else []
    return section("What each policy comes to", *tables, *remark)


def _table(subject: Subject, caption: str, headers: Sequence[str], fields: Sequence[str], texts: Texts) -> str:
    names = [header.replace("-\n", "").replace("\n", " ") for header in headers]
    return table(caption, names, [_row(subject, outcome, fields, texts) for outcome in subject.comparison.outcomes])


def _row(subject: Subject, outcome: PolicyOutcome, fields: Sequence[str], texts: Texts) -> tuple[Cell, ...]:
    is_first = outcome is subject.comparison.outcomes[0]
    spread = next((spread for spread in subject.spreads if spread.policy == outcome.policy), None)
    if spread is None:
        return tuple(Cell(text) for text in texts(outcome, is_first))
    columns = (texts(outcome_at(outcome, spread, which), is_first) for which in ("mean", "low", "high"))
    return tuple(_cells(spread, zip(fields, *columns, strict=False), is_first=is_first))


def _texts(units: PolicyUnits, outcome: PolicyOutcome, is_first: bool) -> tuple[str, ...]:
    return policy_row(outcome, units, is_first=is_first)


def _cooling_texts(energy: Unit, outcome: PolicyOutcome, is_first: bool) -> tuple[str, ...]:
    return cooling_row(outcome, energy, is_first=is_first)


def _sleep_texts(outcome: PolicyOutcome, _is_first: bool) -> tuple[str, ...]:
    return sleep_row(outcome)


def _cells(
    spread: ReplicationSpread, columns: Iterable[tuple[str, str, str, str]], *, is_first: bool
) -> Iterator[Cell]:
    """Yield the mean of each figure over the replays, and the interval where it has one."""
    for name, mean, low, high in columns:
        varies = name in WITH_RANGE and low != high
        is_noise = varies and not is_first and spread.is_noise(name)
        yield Cell(
            mean, f"{low.removesuffix(' %')} to {high.removesuffix(' %')}" if varies else "", NOISE if is_noise else ""
        )


def _remark(spreads: tuple[ReplicationSpread, ...]) -> str:
    if not spreads:
        return ONE_REPLAY
    return f"Means of {spread_remark(spreads)}."
