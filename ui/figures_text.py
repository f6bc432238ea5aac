"""Figures, their units and periods as people read them, and how wide a table may be that nobody's terminal holds."""

from dataclasses import dataclass

from offpeak.text import counted

NOT_WRAPPED = 1000
"""Width of what goes into a pipe: lines of any length stay whole."""

WITH_CENTS_BELOW = 10_000
HOURS_BELOW_S = 2 * 86_400
MINUTES_BELOW_S = 3600


@dataclass(frozen=True)
class Unit:
    """A unit in which figures are shown; `size` is how much of the smallest one it is."""

    name: str
    size: float

    def figure(self, value: float) -> str:
        """Return a figure that is given in the smallest unit."""
        return figure(value / self.size)


ENERGY_UNITS = (Unit("GWh", 1e6), Unit("MWh", 1e3), Unit("kWh", 1.0))
CO2_UNITS = (Unit("t", 1e3), Unit("kg", 1.0))


def unit_of(largest: float, units: tuple[Unit, ...]) -> Unit:
    """Return the largest unit of which `largest`, given in the smallest one, is ten or more; else the smallest."""
    return next((unit for unit in units if abs(largest) >= 10 * unit.size), units[-1])


def figure(value: float) -> str:
    """Return money or energy with cents, a large one without."""
    return f"{value:z,.2f}" if abs(value) < WITH_CENTS_BELOW else f"{value:,.0f}"


def length_text(length_s: int) -> str:
    """Return a period in whole days, a short one in hours, a very short one in minutes."""
    if length_s < MINUTES_BELOW_S:
        return counted(round(length_s / 60), "minute")
    return counted(round(length_s / 3600), "hour") if length_s < HOURS_BELOW_S else f"{length_s / 86_400:,.0f} days"
