"""What the testbed tables say of themselves, without a replay: what can be saved, and what was."""

from offpeak.model.node_class import NodeClass
from studies.energy_carbon.nodes import depth_of
from studies.energy_carbon.paper import Row

KJ = 1000.0


def empty_saved_pct(row: Row, node_class: NodeClass, way: str, nodes: int) -> float:
    """Return what a cluster without jobs saves of the row's default energy: every node sleeps from the first second."""
    depth = depth_of(node_class, way)
    asleep_s = row.aware.elapsed_s - depth.enter.duration_s
    return 100 * (1 - nodes * (depth.enter.energy_j + asleep_s * depth.power_w) / (row.default.energy_kj * KJ))


def ceiling_pct(row: Row, node_class: NodeClass, way: str, nodes: int, load: float) -> float:
    """Return what the row would save if nodes without a job slept all the time, at no cost of transitions.

    The jobs keep that share of the default run's node time busy; the energy-aware run lasts as long.
    """
    asleep_w = depth_of(node_class, way).power_w
    jobs_w = row.default.power_w - (1 - load) * nodes * node_class.idle_w
    return 100 * (1 - (jobs_w + (1 - load) * nodes * asleep_w) / row.default.power_w)


def busy_share(row: Row, node_class: NodeClass, way: str, nodes: int) -> float:
    """Return the share of the energy-aware run's node time in which nodes were not asleep, by its energy.

    What the default run used above idle nodes is taken to be the jobs' in both runs.
    """
    jobs_j = row.default.energy_kj * KJ - nodes * node_class.idle_w * row.default.elapsed_s
    asleep_w = depth_of(node_class, way).power_w
    awake_j = row.aware.energy_kj * KJ - jobs_j - nodes * row.aware.elapsed_s * asleep_w
    return awake_j / (node_class.idle_w - asleep_w) / (nodes * row.aware.elapsed_s)


def equally_long_saved_pct(row: Row, node_class: NodeClass, nodes: int) -> float:
    """Return the row's saving had the default run lasted as long as the energy-aware one, its nodes idle at the end."""
    longer_j = nodes * node_class.idle_w * (row.aware.elapsed_s - row.default.elapsed_s)
    return 100 * (1 - row.aware.energy_kj * KJ / (row.default.energy_kj * KJ + longer_j))
