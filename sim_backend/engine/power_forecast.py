"""How many idle nodes a forecast keeps awake, and how many it wakes, told to the engine's power every period."""

from offpeak.compiled import index, part
from plugin.capacity.need import WAKE_AHEAD_AT, last_rank, observe_need
from plugin.capacity.rules import CapacityRules
from sim_backend.engine.power import Power
from sim_backend.engine.state import State


@part
def nodes_needed(state: State, power: Power) -> int:
    """Return how many nodes the running jobs need, those included that wait for their nodes to come up."""
    units = 0
    for at in range(state.scalars[0].listed):
        units += state.slots.size[index(state.expected[index(at)])]
    per_node = power.scalars[0].units_per_node
    return int((units + per_node - 1) // per_node)


@part
def expect_needs(state: State, power: Power, rules: CapacityRules) -> None:
    """Learn from what is needed now, and set how many idle nodes stay awake and how many are to be awake."""
    nodes = power.scalars[0]
    observe_need(power.needs, state.scalars[0].now_s, nodes_needed(state, power))
    nodes.keep = last_rank(power.needs, 1 / rules.worth_s)
    nodes.reserve = last_rank(power.needs, WAKE_AHEAD_AT / rules.worth_s)
