"""What a replay's figures rest on: the prices, the machine and its watts, and what of these nobody declared."""

from dataclasses import dataclass

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.job_power import JobPower, MeasuredPower, UniformPower
from offpeak.model.node_class import NodeClass
from offpeak.settings.replay import PowerSettings
from sim_backend.electricity import LaidSeries
from sim_backend.machine_size import Units

BUSY_WATTS, IDLE_WATTS = "watts of busy nodes (--power)", "watts of idle nodes (--idle-power)"


@dataclass(frozen=True)
class Basis:
    """The prices in words, the notes that these contain, and what of them is assumed, "" for nothing; and the machine.

    A busy node draws `busy_w`, lowest and highest; these are one and the same where draws are not left to chance: the
    mean over the jobs. `busy_source` says where that comes from. `assumed` names each fact of the machine that nobody
    declared, with the option that does.
    """

    prices: str
    prices_notes: tuple[str, ...]
    prices_assumed: str
    nodes: int
    processors_per_node: int
    busy_w: tuple[float, float]
    busy_source: str
    idle_w: float
    assumed: tuple[str, ...]


def basis_of(
    units: Units, laid: LaidSeries, power: JobPower, draw_w: Float64, settings: PowerSettings, node: NodeClass | None
) -> Basis:
    """Return what the figures of these jobs rest on; `draw_w` is what each draws per unit [W]."""
    tariff = laid.tariff
    notes = () if tariff else laid.notes
    prices = tariff.description if tariff else "; ".join((f"{laid.series.source} in {laid.series.unit}", *notes))
    assumed = "; ".join(filter(None, (tariff.assumed if tariff else "", laid.assumed)))
    is_idle_assumed = settings.node_class is None if node else settings.idle_w is None
    return Basis(
        prices=prices,
        prices_notes=(laid.assumed,) if laid.assumed else notes,
        prices_assumed=assumed,
        nodes=units.size // units.per_node,
        processors_per_node=units.node_processors,
        busy_w=_busy_w(power, draw_w),
        busy_source="measured in the log, on average" if power.model == MeasuredPower() else settings.job or "",
        idle_w=node.idle_w if node else settings.idle_node_w,
        assumed=(
            *units.assumed,
            *((BUSY_WATTS,) if power.assumed else ()),
            *((IDLE_WATTS,) if is_idle_assumed else ()),
        ),
    )


def _busy_w(power: JobPower, draw_w: Float64) -> tuple[float, float]:
    if isinstance(power.model, UniformPower):
        return power.model.low_w, power.model.high_w
    weights = np.maximum(power.jobs.size * power.jobs.runtime_s, 1)
    mean_w = float(np.average(draw_w, weights=weights)) * power.units_per_node
    return mean_w, mean_w
