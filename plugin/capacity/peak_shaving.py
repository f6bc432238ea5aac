"""Peak shaving: the highest quarter-hour that is paid already is a soft cap on power.

A job that would draw more waits, at most `longest_s`. The engine's replay asks `soft_cap` at each start. The agent
makes the same cap a `PowerCap`, which queue and nodes obey as any other.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import ACTIVE
from offpeak.prices.tariff import Tariff

NO_CAP = np.iinfo(np.int64).max


class PeakRules(NamedTuple):
    """From `at_s[i]` on, quarter-hours up to `target_mw[k, i]` [mW] cost nothing more by demand charge k; NO_CAP: they
    do not count for it.

    `is_new[k, i]`: a period of the charge begins. `longest_s` is the longest wait of a job for a lower peak, 0 without
    peak shaving. `idle_mw` is the draw of an idle unit, `state_mw` of a node in each state that is not active.
    Quarter-hours are counted from `at_s[0]`.
    """

    at_s: NDArray[np.int64]
    target_mw: NDArray[np.int64]
    is_new: NDArray[np.bool_]
    longest_s: int
    idle_mw: int
    state_mw: NDArray[np.int64]


NOTHING = np.zeros((1, 1), np.int64)
NO_SHAVING = PeakRules(NOTHING[0], NOTHING + NO_CAP, NOTHING > 0, 0, 0, NOTHING[0])


@dataclass(frozen=True)
class PeakTarget:
    """The power up to which a quarter-hour is taken to cost nothing more, and the longest wait of a job for it."""

    power_w: float
    longest_s: int

    def rules(self, tariff: Tariff, start_s: Int64, node_class: NodeClass, units_per_node: int) -> PeakRules:
        """Return the rules for the demand charges of the tariff, in the quarter-hours that begin then [Unix s]."""
        cells, months = tariff.calendar.cells(start_s), tariff.calendar.months(start_s)
        counts = np.array([charge.counts(cells) for charge in tariff.demand])
        periods = np.array([charge.period(months) for charge in tariff.demand])
        is_new = np.diff(periods, axis=1, prepend=periods[:, :1] - 1) > 0
        changes = is_new.any(axis=0) | np.diff(counts, axis=1, prepend=counts[:, :1]).any(axis=0)
        state_w = node_class.state_w()
        # Jobs have the nodes that come up, and count with their own power.
        state_w[ACTIVE] = state_w[1::3] = 0.0
        return PeakRules(
            start_s[changes],
            np.ascontiguousarray(np.where(counts[:, changes], int(1000 * self.power_w), NO_CAP)),
            np.ascontiguousarray(is_new[:, changes]),
            self.longest_s,
            int(1000 * node_class.idle_w / units_per_node),
            (1000 * state_w).astype(np.int64),
        )


def soft_cap(target: int, peak: int, waited_s: int, longest_s: int) -> int:
    """Return the power that the start of a job may reach: the target or the highest quarter-hour so far, without bound
    once the job has waited for the longest time.
    """
    return NO_CAP if waited_s >= longest_s else max(target, peak)
