"""The machine room: what cooling adds to each watt of computing, by load and outside temperature.

PUE is facility power over IT power, so cooling draws IT power x (PUE - 1). Source of the table's shape: "Optimizing
profit and cooling costs in HPC cluster scheduling", eq. (5), whose eq. (3) would count the IT energy twice if the table
held PUE and were multiplied as it stands.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.jobs import Float64

STEP_W = 500.0
"""IT power is rounded to this before it is looked up, as in the paper."""


@dataclass(frozen=True, eq=False)
class Facility:
    """PUE at each power [W] and temperature [degrees C], both rising; float64[powers, temperatures]."""

    name: str
    power_w: Float64
    temperature_c: Float64
    pue: Float64

    def pue_at(self, power_w: Float64, temperature_c: Float64) -> Float64:
        """Return the PUE at each pair; between the table's points in proportion, beyond its edges that of the edge.

        Power is rounded to 500 W first.
        """
        row, down = _place(self.power_w, STEP_W * np.rint(np.asarray(power_w) / STEP_W))
        column, right = _place(self.temperature_c, np.asarray(temperature_c))
        next_row = np.minimum(row + 1, len(self.power_w) - 1)
        next_column = np.minimum(column + 1, len(self.temperature_c) - 1)
        above = (1 - right) * self.pue[row, column] + right * self.pue[row, next_column]
        below = (1 - right) * self.pue[next_row, column] + right * self.pue[next_row, next_column]
        return np.asarray((1 - down) * above + down * below)

    def pue_range(self, temperature_c: Float64) -> tuple[Float64, Float64]:
        """Return the least and the greatest PUE at each temperature, whatever the power."""
        powers = self.power_w[:, None]
        each = self.pue_at(np.broadcast_to(powers, (len(powers), len(temperature_c))), temperature_c[None, :])
        return each.min(axis=0), each.max(axis=0)

    def beyond_table(self, temperature_c: Float64) -> str:
        """Return a sentence on temperatures that the table does not have, to be said once; empty if it has them all."""
        low, high = self.temperature_c[0], self.temperature_c[-1]
        outside = (temperature_c < low) | (temperature_c > high)
        if not outside.any():
            return ""
        coldest, warmest = temperature_c[outside].min(), temperature_c[outside].max()
        return (
            f"facility {self.name}: {outside.sum()} of {len(temperature_c)} temperatures, {coldest:g} to {warmest:g} C,"
            f" lie outside its table of {low:g} to {high:g} C: the PUE of its edge stands for them"
        )


def cooling_w(facility: Facility, power_w: Float64, temperature_c: Float64) -> Float64:
    """Return what the cooling draws [W] beside that IT power."""
    return np.asarray(power_w * (facility.pue_at(power_w, temperature_c) - 1))


def _place(points: Float64, value: Float64) -> tuple[NDArray[np.intp], Float64]:
    """Return the point below each value and how far it is on the way to the next, 0 to 1."""
    if len(points) == 1:
        return np.zeros(value.shape, np.intp), np.zeros(value.shape)
    inside = np.clip(value, points[0], points[-1])
    below = np.clip(np.searchsorted(points, inside, side="right") - 1, 0, len(points) - 2)
    return below, (inside - points[below]) / (points[below + 1] - points[below])
