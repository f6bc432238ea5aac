"""Gives back what is the site's own: the order of its queue, begin times of jobs, and nodes that offpeak closed."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from offpeak.door.journal import Intent
from offpeak.ledger.rows import JobMark
from offpeak.model.orders import NodeChange
from plugin.queue_hook.queue_plan import restore_plan
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.node import Node, NodePower
from plugin.scheduler.port import Ranking
from power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_record import ASLEEP, Instant, NodeRecord, NodeState
from power.live.node_steps import may_still_go_down
from services.agent.queue_loop import group_plan

DOWNWARDS = ASLEEP | {NodeState.GOING_DOWN}
WHY = "the site has its own order again"
ON_ITS_WAY = "it is on its way down or up"


async def restore_queue(
    jobs: Sequence[Job], marks: Iterable[JobMark], ranking: Ranking, orders: SchedulerOrders, *, by: str
) -> list[SchedulerOrderResult]:
    """Undo what we changed of jobs that still wait; returns what became of it, by partitions."""
    plan = restore_plan(jobs, marks, ranking=ranking)
    groups = group_plan(plan, {job.job_id: job for job in jobs})
    return [await orders.give_back(each.name, each.rank, each.begin_s, why=WHY, by=by) for each in groups]


async def clear_comments(jobs: Iterable[Job], orders: SchedulerOrders, *, by: str) -> list[SchedulerOrderResult]:
    """Take away what owners see of us, of jobs that wait or run; comments of others stay. Returns what became of it."""
    present = {job.job_id: job for job in jobs if job.state not in (JobState.ENDED, JobState.ENDS)}
    if not present:
        return []
    partitions = ",".join(sorted({name for job in present.values() for name in job.partitions}))
    return [await orders.notify(partitions, dict.fromkeys(present, ""), why="offpeak says nothing more of them", by=by)]


async def open_nodes(
    nodes: Iterable[Node], orders: SchedulerOrders, *, by: str, but: Collection[str] = ()
) -> dict[str, str]:
    """Open the nodes that we closed and that jobs can use; returns why the others are closed still, `but` among them.

    One that cannot be used is on its way down or up.
    """
    closed = [node for node in nodes if node.closed_by_us]
    usable = [node.name for node in closed if is_usable(node) and node.name not in but]
    why = "offpeak: given back"
    answers = await asyncio.gather(*(orders.change_node(node, NodeChange.OPEN, why=why, by=by) for node in usable))
    answered = dict(zip(usable, answers, strict=True))
    opened = {node for node, answer in answered.items() if answer.done}
    said = {node: answer.answer.said for node, answer in answered.items()}
    return {node.name: said.get(node.name, ON_ITS_WAY) for node in closed if node.name not in opened}


async def hand_over_off_nodes(
    off: Collection[str], nodes: Callable[[], Iterable[Node]], orders: SchedulerOrders, *, by: str
) -> frozenset[str]:
    """Tell the scheduler of closed nodes that are off that they are powered down, and open them: a job has them woken.

    Their agent has ended between the order to sleep and its report to the scheduler. `nodes` asks for the nodes anew.
    Returns those that are given back.
    """
    if not off:
        return frozenset()
    why = "offpeak: given back: it is off, and woken for a job"
    await asyncio.gather(*(orders.change_node(node, NodeChange.POWER_DOWN, why=why, by=by) for node in off))
    known = {node.name: node for node in await asyncio.to_thread(nodes) if node.name in off}
    opens = {name: NodeChange.RESUME if node.failed else NodeChange.OPEN for name, node in known.items()}
    answers = await asyncio.gather(
        *(orders.change_node(name, change, why=why, by=by) for name, change in opens.items())
    )
    return frozenset(name for name, answer in zip(opens, answers, strict=True) if answer.done)


def on_their_way(
    nodes: Iterable[Node], lives: NodeRecords, sleep_orders: Mapping[str, Intent], now: Instant
) -> frozenset[str]:
    """Return the nodes that may be about to go down, or are off and the scheduler has not noticed.

    `sleep_orders` are the last ones of the ledger, which has also those that no life knows of.
    """
    known = ((node, lives.nodes.get(node.name, NodeRecord(node.name))) for node in nodes)
    return frozenset(
        node.name
        for node, life in known
        if _is_on_its_way(node, life, now) or _may_follow(node, life, sleep_orders.get(node.name))
    )


def is_usable(node: Node) -> bool:
    """Whether a job that is given the node can run: it answers, or it counts as powered down and is woken for it."""
    return node.power is NodePower.DOWN or (node.power is NodePower.UP and node.responds and not node.failed)


def _may_follow(node: Node, life: NodeRecord, order: Intent | None) -> bool:
    """Whether the node was not seen to be off, or to come up again, since it was ordered to sleep."""
    if order is None or (node.boot_s or 0) > order.at_unix_s:
        return False
    return life.observed.state is NodeState.UNKNOWN or life.observed.since_unix_s <= order.at_unix_s


def _is_on_its_way(node: Node, life: NodeRecord, now: Instant) -> bool:
    went_down = life.observed.state in DOWNWARDS and (node.boot_s or 0) <= life.observed.since_unix_s
    return may_still_go_down(life, now) or (went_down and node.power is not NodePower.DOWN)
