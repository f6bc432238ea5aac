"""What the machine room adds to a replay: cooling's energy, money and CO2, by the same table as the day-ahead plan.

The draw is constant between starts, ends and changes of nodes, and so is the PUE: the sums are exact.
"""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.constants import J_PER_KWH, J_PER_MWH
from offpeak.model.facility import Facility, cooling_w, facility_named
from offpeak.model.step_integrals import StepIntegral, integrals
from offpeak.settings.plan import PlanSettings
from sim_backend.nodes.power_curve import PowerCurve


@dataclass(frozen=True, eq=False)
class CoolingConditions:
    """The machine room, and the temperature outside [degrees C]."""

    facility: Facility
    outside_c: float

    @property
    def note(self) -> str:
        """A remark for readers."""
        beyond = self.facility.beyond_table(np.array([self.outside_c]))
        exceeded = f"; {beyond}" if beyond else ""
        return f"cooling: {self.facility.name}, {self.outside_c:g} C outside at all times{exceeded}"


@dataclass(frozen=True)
class Cooling:
    """What cooling took: energy, money in the prices' currency (0 while none is known), and CO2 if that is known.

    `pue` is the energy of all over that of the computers, 1 where these took none.
    """

    kwh: float
    cost: float
    co2_kg: float | None
    pue: float


def room_of(settings: PlanSettings, *, full_power_w: float) -> CoolingConditions | None:
    """Return the room, None if no facility is set. Raises BadInput for one that cannot be read."""
    if settings.facility is None:
        return None
    return CoolingConditions(facility_named(settings.facility, full_power_w=full_power_w), settings.outside_c)


def cooling_of(room: CoolingConditions, curve: PowerCurve, price: StepIntegral, carbon: StepIntegral | None) -> Cooling:
    """Return what cooling takes while the machine draws the power of the curve."""
    edges_s, it_w = curve.edges_s, curve.total_w
    watts = cooling_w(room.facility, it_w, np.full(len(it_w), room.outside_c))
    seconds = np.diff(edges_s)
    it_j, cooling_j = float(it_w @ seconds), float(watts @ seconds)
    co2_kg = None if carbon is None else _charged(watts, curve, carbon) / J_PER_KWH / 1000
    pue = 1 + cooling_j / it_j if it_j else 1.0
    return Cooling(cooling_j / J_PER_KWH, _charged(watts, curve, price) / J_PER_MWH, co2_kg, pue)


def _charged(watts: Float64, curve: PowerCurve, meter: StepIntegral) -> float:
    edges_s = curve.edges_s
    return float(watts @ integrals(meter, edges_s[:-1], edges_s[1:]))
