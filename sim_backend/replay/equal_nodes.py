"""Replays a log on a machine of equal units, whose nodes are always on or sleep: when would each job have started?"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from offpeak.errors import OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.model.jobs import Jobs
from offpeak.model.node_class import NodeClass
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.capacity.port import CapacityPolicy
from offpeak.sim_backend.engine.case import unit_case
from offpeak.sim_backend.engine.rules import NO_PEAKS, PeakTimes
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import Replay, SleepingNodes, unit_rules_of
from offpeak.sim_backend.replay.schedule import Schedule


@dataclass(frozen=True)
class PoweredMachine:
    """Nodes of one class: allocation units, units a node, the seed of their failures, and `enclosures` as of NodeLog.

    Raises OffpeakError unless the units are those of whole nodes.
    """

    size: int
    units_per_node: int
    node_class: NodeClass
    seed: int = 1
    enclosures: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        surplus = self.size % self.units_per_node
        if surplus:
            raise OffpeakError(
                f"{self.size:,} units are not whole nodes of {self.units_per_node:,}",
                hint=f"leave out the last {surplus:,} units",
            )

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.size // self.units_per_node

    @property
    def classes(self) -> tuple[NodeClass]:
        """The class of the only pool of nodes."""
        return (self.node_class,)

    def sleeping(self, shaving: PeakRules = NO_SHAVING) -> SleepingNodes:
        """Return the nodes as a replay takes them."""
        return SleepingNodes((self.node_class,), self.units_per_node, self.seed, shaving, self.enclosures)


NO_JOBS = np.empty(0, dtype=np.int64)


def unit_replay(
    jobs: Jobs,
    node_power_w: Float64,
    machine: PoweredMachine | int,
    policy: Policy,
    *,
    peaks: PeakTimes = NO_PEAKS,
    without_limit: Int64 = NO_JOBS,
    shaving: PeakRules = NO_SHAVING,
) -> Replay:
    """Return the replay of jobs, none wider than the machine; `node_power_w` is their draw per unit [W].

    The nodes of `machine` sleep as the policy says; units of which only the number is given are always on.
    `without_limit` are the ids of jobs without a time limit, whose estimates say how long they ran.
    """
    rules = unit_rules_of(policy)
    if not isinstance(machine, PoweredMachine):
        return Replay(unit_case(jobs, node_power_w, machine), policy, rules, peaks=peaks, jobs=jobs)
    case = unit_case(
        jobs, node_power_w, machine.size, units_per_node=machine.units_per_node, without_limit=without_limit
    )
    return Replay(case, policy, rules, machine.sleeping(shaving), peaks=peaks, jobs=jobs)


def replay(
    jobs: Jobs,
    node_power_w: Float64,
    *,
    machine_size: int,
    policy: Policy,
    peaks: PeakTimes = NO_PEAKS,
    progress: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of `jobs` on units that are always on, up to the last job's end."""
    made = unit_replay(jobs, node_power_w, machine_size, policy, peaks=peaks)
    made.run(progress)
    return made.schedule()


def replay_powered(
    jobs: Jobs,
    node_power_w: Float64,
    machine: PoweredMachine,
    policy: Policy,
    capacity: CapacityPolicy,
    *,
    peaks: PeakTimes = NO_PEAKS,
    shaving: PeakRules = NO_SHAVING,
) -> Schedule:
    """Return the schedule of the jobs under a scheduling and a capacity policy, up to the last job's end."""
    policy = replace(policy, capacity=(capacity,))
    made = unit_replay(jobs, node_power_w, machine, policy, peaks=peaks, shaving=shaving)
    made.run()
    return made.schedule()
