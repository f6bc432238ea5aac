"""What a what-if in which nodes sleep and electricity is charged has to know besides the snapshot."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import DEPTHS
from offpeak.settings.capacity import CapacitySettings
from plugin.capacity.policies import capacity_rules, idle_before_depth_s, used_depths
from plugin.capacity.port import Fleet
from plugin.capacity.rules import CapacityRules, DepthTable
from power.what_if import EASY_RULES
from sim_backend.engine.rules import SchedulingRules
from sim_backend.powered_replay import depth_table

JOB_UTILISATION = 0.75
"""Of a job's draw nothing is known ahead: each is taken to use its nodes so far, the middle of what jobs do."""


@dataclass(frozen=True, eq=False)
class PowerTerms:
    """The class of the nodes, how they sleep, and who starts.

    `capacity` bounds their sleep; `after_s` [s, by depth number] is 0 for the depth that surplus nodes go to.
    """

    node_class: NodeClass
    capacity: CapacityRules
    after_s: Int64
    rules: SchedulingRules = EASY_RULES

    @cached_property
    def job_w(self) -> float:
        """What a node draws that runs jobs [W]."""
        return self.node_class.running_w(JOB_UTILISATION)

    @cached_property
    def state_w(self) -> Float64:
        """What a node draws that runs nothing, by state [W]."""
        return self.node_class.state_w()

    @cached_property
    def longest_wake_s(self) -> int:
        """How long a node takes to come up at the most."""
        return max((depth.leave.duration_s for depth in self.node_class.depths), default=0)

    @cached_property
    def depths(self) -> DepthTable:
        """The transitions of the class, none of which fails."""
        never = np.zeros(len(DEPTHS))
        return depth_table(self.node_class, seed=0)._replace(enter_failure=never, leave_failure=never)


def terms_of(fleet: Fleet, settings: CapacitySettings) -> PowerTerms:
    """Return the terms for a fleet. BadInput if its nodes cannot sleep as the settings say."""
    # Nodes that a reservation has woken beyond the profile would at once leave again.
    rules = capacity_rules(fleet, settings, on_demand=False)._replace(ahead_s=0)
    return PowerTerms(
        fleet.node_class, rules, idle_before_depth_s(fleet.node_class, used_depths(fleet.node_class, settings), 0)
    )
