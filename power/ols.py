"""OLS as a capacity policy: each period the what-if says how many nodes have to be awake."""

from dataclasses import dataclass

from offpeak.model.snapshot import Snapshot
from offpeak.settings.capacity import CapacitySettings
from offpeak.text import counted
from plugin.capacity.policies import capacity_rules, constant_schedule, idle_before_depth_s, used_depths
from plugin.capacity.port import CapacityPolicy, CapacityTargets, Fleet
from power.online_simulation import ols_units
from power.period_and_sla import DEFAULT_PERIOD, period_and_sla
from power.what_if import EASY_RULES
from sim_backend.engine.rules import SchedulingRules


@dataclass(frozen=True)
class OnlineSimulation:
    """Decides by the what-if under a scheduling discipline; the SLA bounds the mean slowdown of the known jobs."""

    sla: float
    rules: SchedulingRules = EASY_RULES

    def __call__(self, snapshot: Snapshot) -> CapacityTargets:
        """Return the fewest nodes that keep the SLA, of those that the bisection tries."""
        decision = ols_units(snapshot.without_too_wide(), self.sla, rules=self.rules)
        awake, all_nodes = (units // snapshot.units_per_node for units in (decision.units, snapshot.usable_units))
        jobs, slowdown = counted(len(decision.plan.start_s), "job"), decision.plan.slowdown
        why = f"{awake} of {all_nodes} nodes for {jobs}: a mean slowdown of {slowdown:.1f} (bound {self.sla:g})"
        return CapacityTargets(awake, why=why)


def ols(fleet: Fleet, settings: CapacitySettings, argument: str) -> CapacityPolicy:
    """As many nodes as keep the slowdown SLA in a simulation of the known jobs, decided anew each period.

    The argument is the period, and perhaps an SLA other than that of the settings: "1h", "1h:50".
    """
    period_s, sla = period_and_sla("ols", argument, settings.sla)
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(period_s=period_s, raise_for_wide=True)
    after_s = idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    return CapacityPolicy(
        f"ols:{argument or DEFAULT_PERIOD}", rules, constant_schedule(fleet, after_s), OnlineSimulation(sla)
    )
