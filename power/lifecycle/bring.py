"""Brings one node to where an admin wants it, by the same rounds as the agent makes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from power.lifecycle.decide import Lives
from power.lifecycle.events import Wished
from power.lifecycle.life import NodeLife, NodeState, Wish, is_goal
from power.lifecycle.step import step
from power.lifecycle.sweep import Means, sweep
from power.lifecycle.terms import Conduct

ONCE = Conduct(tries=1)
"""Every way is tried, and none of them a second time: the admin sees what came of it."""

LOOKS = 3
"""A BMC may miss a question; so many looks in a row that see nothing end it."""


async def bring(
    means: Means,
    life: NodeLife,
    wish: Wish,
    *,
    poll_s: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NodeLife:
    """Return the life of the node when it is as wished, or refused, at fault, or not to be seen."""
    means = replace(means, terms=replace(means.terms, conduct=ONCE))
    rules_of = replace(means.terms, hardware=means.lookout.machines[life.node].hardware)
    lives = Lives({life.node: step(life, Wished(wish), means.clock(), rules_of)})
    unseen = 0
    while True:
        swept = await sweep(means, lives, {})
        lives, now = swept.lives, swept.lives.nodes[life.node]
        unseen = unseen + 1 if now.seen.state is NodeState.UNKNOWN else 0
        if _ended(now, wish) or unseen >= LOOKS or not (now.effort.course or now.effort.step or unseen):
            return now
        await sleep(poll_s)


def _ended(life: NodeLife, wish: Wish) -> bool:
    return is_goal(wish.order, life.seen.state) or life.fault is not None or life.effort.refusal is not None
