"""Restores the site's own state: the order of its queue, begin times of jobs, and nodes that offpeak closed.

`give_back` does it for an agent that ends or whose mode closes the door, `run_restore` for `offpeak agent --restore`.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from offpeak.door.effect import ADMIN, AGENT, Hold, Mode
from offpeak.door.journal import Intent
from offpeak.errors import BadInventory, CannotWrite, SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from offpeak.model.orders import NodeChange, NodeState, PowerState
from offpeak.plugin.queue_hook.positions import BY_CAP, RANK
from offpeak.plugin.queue_hook.queue_plan import restore_plan
from offpeak.plugin.scheduler.job import Job, JobState, join_array_tasks
from offpeak.plugin.scheduler.node import Node
from offpeak.plugin.scheduler.port import Ranking
from offpeak.power.door.cap_orders import CapDevices, CapOrderer, CapOrders, CapRecords, make_cap_door
from offpeak.power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders
from offpeak.power.drivers.poll import poll_drivers
from offpeak.power.drivers.port import PowerDriver
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import ASLEEP, Instant, NodeRecord
from offpeak.power.live.observe import has_booted_since, may_still_go_down
from offpeak.process import exclusive_lock, login_name
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.cap_loop import outcome_text
from offpeak.services.agent.node_memory import load_node_records, read_last_sleep_orders
from offpeak.services.agent.power_loop import POLL_TIMEOUTS
from offpeak.services.agent.queue_loop import group_plan
from offpeak.services.agent.site_context import PartitionModes, SiteContext, make_site_context, open_scheduler_door
from offpeak.settings.table import Settings

DOWNWARDS = ASLEEP | {NodeState.GOING_DOWN}
WHY = "the site has its own order again"
ON_ITS_WAY = "it is on its way down or up"


async def restore_queue(
    jobs: Sequence[Job], marks: Iterable[JobMark], ranking: Ranking, orders: SchedulerOrders, *, by: str
) -> list[SchedulerOrderResult]:
    """Undo our changes of pending jobs; return the results by partitions."""
    jobs = join_array_tasks(jobs)
    plan = restore_plan(jobs, marks, ranking=ranking)
    groups = group_plan(plan, {job.job_id: job for job in jobs})
    return [await orders.give_back(group.name, group.rank, group.begin_s, why=WHY, by=by) for group in groups]


async def clear_comments(jobs: Iterable[Job], orders: SchedulerOrders, *, by: str) -> list[SchedulerOrderResult]:
    """Remove our comments from jobs that wait or run; other comments stay. Return the results."""
    present = {job.job_id: job for job in jobs if job.state not in (JobState.ENDED, JobState.ENDS)}
    if not present:
        return []
    partitions = ",".join(sorted({name for job in present.values() for name in job.partitions}))
    return [await orders.notify(partitions, dict.fromkeys(present, ""), why="offpeak no longer changes them", by=by)]


async def open_nodes(
    nodes: Iterable[Node], orders: SchedulerOrders, *, by: str, but: Collection[str] = ()
) -> dict[str, str]:
    """Open the nodes that offpeak closed and that jobs can use, except those in `but`; return why the others stay
    closed.

    A node that cannot be used is on its way down or up.
    """
    closed = [node for node in nodes if node.closed_by_us]
    usable = [node.name for node in closed if is_usable(node) and node.name not in but]
    why = "offpeak: restored"
    results = await asyncio.gather(*(orders.change_node(node, NodeChange.OPEN, why=why, by=by) for node in usable))
    by_node = dict(zip(usable, results, strict=True))
    opened = {node for node, result in by_node.items() if result.done}
    reasons = {node: result.answer.message for node, result in by_node.items()}
    return {node.name: reasons.get(node.name, ON_ITS_WAY) for node in closed if node.name not in opened}


async def hand_over_off_nodes(
    off: Collection[str], nodes: Callable[[], Iterable[Node]], orders: SchedulerOrders, *, by: str
) -> frozenset[str]:
    """Report closed nodes that are off as powered down, and open these, so that the scheduler wakes them for a job.

    Their agent ended between the order to sleep and its report to the scheduler. `nodes` reads the nodes again. Return
    the nodes that were handed over; one that does not count as powered down stays closed, or a job would start on it.
    """
    if not off:
        return frozenset()
    why = "offpeak: restored: it is off, and is woken for a job"
    reports = await asyncio.gather(*(orders.change_node(node, NodeChange.POWER_DOWN, why=why, by=by) for node in off))
    down = {node for node, report in zip(off, reports, strict=True) if report.done}
    known = {node.name: node for node in await asyncio.to_thread(nodes) if node.name in down}
    opens = {name: NodeChange.RESUME if node.failed else NodeChange.OPEN for name, node in known.items()}
    given_back = (orders.change_node(name, change, why=why, by=by) for name, change in opens.items())
    results = await asyncio.gather(*given_back)
    return frozenset(name for name, result in zip(opens, results, strict=True) if result.done)


def on_their_way(
    nodes: Iterable[Node], records: NodeRecords, sleep_orders: Mapping[str, Intent], now: Instant
) -> frozenset[str]:
    """Return the nodes that may be about to go down, or are off and the scheduler has not noticed.

    `sleep_orders` are the last ones of the ledger; some may be missing in the records.
    """
    known = ((node, records.nodes.get(node.name, NodeRecord(node.name))) for node in nodes)
    return frozenset(
        node.name
        for node, record in known
        if _is_on_its_way(node, record, now) or _may_follow(node, record, sleep_orders.get(node.name), now)
    )


def is_usable(node: Node) -> bool:
    """Return whether a job can run on the node: it responds, or it counts as powered down and is woken for the job."""
    return node.power is PowerState.OFF or (node.power is PowerState.ON and node.responds and not node.failed)


def _may_follow(node: Node, record: NodeRecord, order: Intent | None, now: Instant) -> bool:
    """Return whether the node was not seen off, or coming up again, since it was ordered to sleep."""
    if order is None or has_booted_since(node, order.at_unix_s, now.unix_s):
        return False
    return record.observed.state is NodeState.UNKNOWN or record.observed.since_unix_s <= order.at_unix_s


def _is_on_its_way(node: Node, record: NodeRecord, now: Instant) -> bool:
    if node.power is PowerState.OFF and record.observed.state in ASLEEP:
        return False
    went_down = record.observed.state in DOWNWARDS and (node.boot_s or 0) <= record.observed.since_unix_s
    return may_still_go_down(node, record, now) or (went_down and node.power is not PowerState.OFF)


async def give_back(
    agent: SiteAgent, acted: PartitionModes, stays: PartitionModes, *, leaves: Collection[str] = ()
) -> dict[str, str]:
    """Undo what holds jobs back: the order that the agent wrote, begin times that a cap on power imposed, and the nodes
    that it closed and that jobs can use.

    The orders are allowed by the modes in which the agent has `acted`; partitions that `stays` keeps active are
    left alone, except for nodes that `leaves` names: the agent switches them no longer. A node with a recent order
    to sleep stays closed unless it was seen to come up again. Return why nodes are still closed. Raises
    SchedulerError if the scheduler cannot be read, CannotWrite without the lease.
    """
    if not agent.ledger.may_act():
        # The door would refuse each order, and what is left would not be tried again.
        raise CannotWrite("the lease of the ledger is not valid", hint="`offpeak status` says which agent acts")
    view, traits = await agent.observer.view(at_most_s=0.0), agent.observer.traits
    if view is None or traits is None:
        raise SchedulerError("the scheduler does not answer", hint="`offpeak check` says why")
    # Opening the doors loads the records of the nodes, which show the nodes that go down.
    await agent.orders()
    orders = agent.undoing(acted)
    jobs = [job for job in view.jobs if stays.of_order(job.partitions) is not Mode.ACTIVE]
    nodes = [node for node in view.nodes if node.name in leaves or stays.of(node.partitions) is not Mode.ACTIVE]
    # A delay that the owner allows ends by itself. One that a cap imposes needs an agent that sees the cap withdrawn.
    marks = await agent.queue.marks()
    capped = {mark.job for mark in marks if mark.kind == BY_CAP and mark.to > view.at_s}
    given = [mark for mark in marks if mark.kind.startswith(RANK) or mark.job in capped]
    await restore_queue(jobs, given, traits.ranking, orders, by=AGENT)
    now = agent.power.now
    sleep_orders = await asyncio.to_thread(read_last_sleep_orders, agent.ledger, now.unix_s)
    but = on_their_way(nodes, agent.power.records, sleep_orders, now)
    return await open_nodes(nodes, orders, by=AGENT, but=but)


@dataclass(frozen=True)
class RestoreResult:
    """The nodes that are open to jobs again, and a text for each thing that could not be given back."""

    nodes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def run_restore(settings: Settings) -> RestoreResult:
    """Undo our changes of the scheduler's queue and nodes.

    It is an admin's order, so the mode does not matter. Raises AlreadyRunning while an agent runs, SchedulerError or
    CannotWrite if scheduler or ledger do not answer.
    """
    with exclusive_lock(settings.agent.state_folder):
        site, ledger = make_site_context(settings), Ledger(settings.ledger)
        try:
            ledger.claim_for_command()
            ledger.ready()
            return asyncio.run(_restore(site, ledger))
        finally:
            ledger.close()


async def _restore(site: SiteContext, ledger: Ledger) -> RestoreResult:
    by, scheduler = f"{ADMIN}{login_name()}", site.scheduler
    capped = await _lift_caps(site, ledger, by)
    orders = open_scheduler_door(scheduler, ledger, lambda _: Mode.ADVISE, nodes=site.machines)
    view, marks, now = scheduler.view(), ledger.marks(), Instant(time.monotonic(), time.time())
    records = load_node_records(ledger, site.machines, unix_s=now.unix_s, monotonic_s=now.monotonic_s)
    sleep_orders = read_last_sleep_orders(ledger, now.unix_s)
    results = await restore_queue(view.jobs, marks, scheduler.traits().ranking, orders, by=by)
    results += await clear_comments(view.jobs, orders, by=by)
    refused = [result.answer.message for result in results if not result.done]
    failed = [f"job {job}: {why}" for result in results for job, why in result.failed.items()]
    if not refused and not failed:
        ledger.forget_marks(marks)
    # A node that its scheduler shows as up may be off since an old order.
    drivers: dict[str, PowerDriver] = {}
    for node in [node.name for node in view.nodes if node.closed_by_us and node.power is not PowerState.OFF]:
        # The node may have left the inventory.
        with suppress(BadInventory):
            drivers[node] = site.drivers.bmc_of(node)
    transport = site.transport
    try:
        observed = await poll_drivers(drivers, timeout_s=POLL_TIMEOUTS * transport.timeout_s, clock=transport.clock)
    finally:
        await site.close()
    off = frozenset(node for node, observation in observed.items() if observation.state is PowerState.OFF)
    but = on_their_way(view.nodes, records, sleep_orders, now) | off
    closed = await open_nodes(view.nodes, orders, by=by, but=but)
    back = await hand_over_off_nodes(off, lambda: scheduler.view().nodes, orders, by=by)
    left = {node: why for node, why in closed.items() if node not in back}
    still = [
        f"{node}: closed still: {why}" + ("; try again in some minutes" if why == ON_ITS_WAY else "")
        for node, why in left.items()
    ]
    opened = [node.name for node in view.nodes if node.closed_by_us and node.name not in left]
    return RestoreResult(tuple(opened), (*refused, *failed, *still, *capped))


async def _lift_caps(site: SiteContext, ledger: Ledger, by: str) -> list[str]:
    """Remove the caps on the power of nodes that an agent has left; return why others stay."""
    records, clock = CapRecords(ledger), site.transport.clock
    records.load()
    door = make_cap_door(ledger, lambda _: Mode.ADVISE, clock, nodes=(), hold_of=dict[str, Hold]().get)
    orders = CapOrders(door, CapDevices(site.by_name, site.transport, site.drivers.bmc_of), records, clock)
    outcomes = await orders.uncap(tuple(records.by_node), CapOrderer(by, WHY))
    return [f"{node}: is capped still: {text}" for node, outcome in outcomes.items() if (text := outcome_text(outcome))]
