"""Which nodes may be put to sleep, and which can be woken: the bounds of single nodes, and those of the site."""

from collections.abc import Mapping
from dataclasses import dataclass

from offpeak.model.node_states import ACTIVE
from plugin.scheduler.node import Node
from power.lifecycle.life import ASLEEP, NodeState
from power.live.ahead import Ahead
from power.live.features import kept_for_features
from power.live.hands_off import in_other_hands, untouchable
from power.live.memory import NodeMemory
from power.live.next_step import may_still_go_down
from power.live.pool_plan import Choice, lightest_first
from power.live.pool_state import PoolState
from power.live.site import PowerSite, Sight
from power.live.times import lead_s


@dataclass(frozen=True)
class Candidates:
    """What choices are made from: the site as it is seen, its nodes' memories, and who is not to be touched."""

    site: PowerSite
    sight: Sight
    nodes: Mapping[str, NodeMemory]
    maintained: frozenset[str]

    def is_ours(self, node: Node) -> bool:
        """Whether the node may be switched now, and nobody else has a hand on it."""
        if node.name not in self.site.opted_in or node.name in self.maintained:
            return False
        life, now = self.sight.life(node.name), self.sight.now
        return life is not None and not untouchable(node, life, now) and not in_other_hands(node, life, now)

    def choice(self, pool: PoolState, ahead: Ahead, most: int) -> Choice:
        """Return who of a pool may be put to sleep, `most` of them, and who can be woken."""
        ours = [node for node in pool.pool.nodes if self.is_ours(node)]
        kept = kept_for_features(pool)
        may_sleep = {node.name for node in ours if self._may_sleep(node, pool, ahead) and node.name not in kept}
        return Choice(frozenset(may_sleep), most, self._may_wake(ours, pool, ahead))

    def _may_sleep(self, node: Node, pool: PoolState, ahead: Ahead) -> bool:
        memory, life, now_s = self.nodes[node.name], self.sight.life(node.name), self.sight.now_s
        if memory.leaving is not None or now_s < memory.rest_until_s or not self._can_sleep(node.name, pool):
            return False
        if life is None or life.seen.state is not NodeState.ON or life.fault is not None:
            return False
        within_s = pool.pays_s + lead_s(self.site, self.sight, node.name)
        is_planned = node.planned and node.name not in ahead.nodes
        return not is_planned and not ahead.keeps(node.name, within_s, now_s)

    def _can_sleep(self, name: str, pool: PoolState) -> bool:
        """Whether its kind of node has the depths that the pool uses."""
        node_class = self.site.node_class(name)
        return node_class is not None and all(node_class.find_depth(depth) for depth in pool.depths)

    def _may_wake(self, ours: list[Node], pool: PoolState, ahead: Ahead) -> tuple[str, ...]:
        """Return first who is asked for by name, then who has not left yet, then who sleeps lightly."""
        asked = [node.name for node in ours if self.to_wake(node.name, ahead)]
        back = [node.name for node in ours if self._can_come_back(node)]
        rested = frozenset(node.name for node in ours if self._is_rested(node))
        return tuple(dict.fromkeys([*asked, *back, *lightest_first(pool, rested)]))

    def to_wake(self, name: str, ahead: Ahead) -> str:
        """Return why a sleeping node is to be woken now, "" if nobody asks for it."""
        life = self.sight.life(name)
        if life is None or life.seen.state not in ASLEEP:
            return ""
        return ahead.to_wake(name, lead_s(self.site, self.sight, name), self.sight.now_s)

    def _can_come_back(self, node: Node) -> bool:
        life = self.sight.life(node.name)
        if self.nodes[node.name].leaving is None or life is None or life.seen.state is not NodeState.ON:
            return False
        return not may_still_go_down(life, self.sight.now)

    def _is_rested(self, node: Node) -> bool:
        slept_s = max(self.nodes[node.name].slept_s, default=0)
        return not node.failed and self.sight.now_s - slept_s >= self.site.bounds.min_asleep_s


def most_to_sleep(candidates: Candidates, nodes: tuple[Node, ...], states: Mapping[str, int]) -> int:
    """Return how many more nodes may be on their way to sleep: in a sweep, and so that enough stay on."""
    agent = candidates.site.agent
    leaving = sum(memory.leaving is not None for memory in candidates.nodes.values())
    ours = [node for node in nodes if node.name in candidates.site.opted_in]
    left_on = sum(states[node.name] == ACTIVE for node in ours)
    return max(min(agent.nodes_per_sweep - leaving, left_on - agent.min_on), 0)
