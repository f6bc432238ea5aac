"""The PV plant and the battery of a site."""

from dataclasses import dataclass
from datetime import UTC

import numpy as np

from offpeak.display import minute_text
from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_series import Series, integral_between


@dataclass(frozen=True)
class Battery:
    """`efficiency` is that of a round trip, above 0 to 1; `start_kwh` and `end_kwh` lie within the capacity."""

    capacity_kwh: float
    charge_kw: float
    discharge_kw: float
    efficiency: float
    start_kwh: float
    end_kwh: float


NO_BATTERY = Battery(0.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class SiteDevices:
    """The battery, and the power of the PV plant [kW] over time, None without one."""

    battery: Battery
    pv: Series | None

    def pv_kw(self, edges_s: Int64) -> Float64:
        """Return the mean PV power between the edges [Unix s]. Raises BadInput where it is not known."""
        if self.pv is None:
            return np.zeros(len(edges_s) - 1)
        begin_s, until_s = int(edges_s[0]), int(edges_s[-1])
        unknown = [(begin_s, int(self.pv.start_s[0])), *self.pv.gaps(), (self.pv.end_s, until_s)]
        for from_s, to_s in unknown:
            if max(from_s, begin_s) < min(to_s, until_s):
                first, last = (minute_text(at_s, UTC) for at_s in (max(from_s, begin_s), min(to_s, until_s)))
                raise BadInput(
                    f"{self.pv.source}: has no value from {first} to {last} UTC, which the period needs",
                    hint="the PV file must cover the time of the prices without a gap: a night is 0, not empty",
                )
        own_edges_s = np.append(self.pv.start_s, self.pv.end_s)
        return integral_between(own_edges_s, np.nan_to_num(self.pv.value), edges_s) / np.diff(edges_s)
