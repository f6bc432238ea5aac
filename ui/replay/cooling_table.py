"""What the machine room adds, as a table for the terminal: energy of computers and cooling, PUE, and money."""

from collections.abc import Sequence

from rich.table import Table

from sim_backend.outcome import PolicyOutcome
from ui.figures_text import ENERGY_UNITS, Unit, figure, unit_of

COOLING_HEADERS = (
    "policy",
    "computers\n{energy}",
    "cooling\n{energy}",
    "PUE",
    "cooling\n{currency}",
    "both\n{currency}",
    "saving\nof both",
)
REMARK = "cooling is beside cost, energy and CO2 of the first table, not in them; PUE: energy of both over computers'"


def cooling_headers(outcomes: Sequence[PolicyOutcome]) -> list[str]:
    """Return the headers with the units in them."""
    energy = energy_unit(outcomes).name
    return [header.format(currency=outcomes[0].currency, energy=energy) for header in COOLING_HEADERS]


def energy_unit(outcomes: Sequence[PolicyOutcome]) -> Unit:
    """Return the unit that suits the energy of the computers."""
    return unit_of(max(outcome.energy_kwh for outcome in outcomes), ENERGY_UNITS)


def cooling_table(outcomes: Sequence[PolicyOutcome]) -> Table:
    """Return a row a policy; savings are against the first."""
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for header in cooling_headers(outcomes):
        table.add_column(header, justify="left" if header == "policy" else "right", overflow="fold", vertical="bottom")
    for outcome in outcomes:
        table.add_row(*cooling_row(outcome, energy_unit(outcomes), is_first=outcome is outcomes[0]))
    return table


def cooling_row(outcome: PolicyOutcome, energy: Unit, *, is_first: bool) -> tuple[str, ...]:
    """Return the cells of a policy."""
    cooling_cost = outcome.cooling_cost or 0.0
    return (
        outcome.policy,
        energy.figure(outcome.energy_kwh),
        energy.figure(outcome.cooling_kwh or 0.0),
        f"{outcome.pue:.3f}",
        figure(cooling_cost),
        figure(outcome.cost + cooling_cost),
        "-" if is_first or outcome.never_started else f"{outcome.cooled_saving_pct:z.2f} %",
    )
