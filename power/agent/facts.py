"""What the queue hook is told, put together from what the scheduler, the prices and the accounts say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from offpeak.ledger.rows import JobMark
from plugin.queue_hook.facts import QueueFacts, QueueRules, ResourcePool, resource_pool
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import Ranking, SchedulerView
from power.accounts.draw import Draw
from power.agent.parts import Parts
from predictors.price_curve import PriceCurve


def queue_rules(parts: Parts) -> QueueRules:
    """Return the site's rules."""
    scheduling, agent = parts.settings.scheduling, parts.settings.agent
    return QueueRules(agent.queue, scheduling.window, scheduling.max_postponement_s, agent.longest_delay_s, parts.zone)


def queue_facts(
    view: SchedulerView,
    ranking: Ranking,
    curve: PriceCurve | None,
    *,
    draws: Mapping[str, Draw],
    run_s: Mapping[str, int],
    marks: tuple[JobMark, ...],
    told: Mapping[str, str],
) -> QueueFacts:
    """Return what is known now; without a curve no price is."""
    facts = QueueFacts(
        view.at_s,
        view.jobs,
        ranking,
        node_power_w={job: draw.node_w for job, draw in draws.items()},
        expected_run_s=run_s,
        expected_wait_s={},
        free_nodes=free_nodes(view.jobs, view.nodes),
        marks=marks,
        told=told,
    )
    if curve is None:
        return facts
    return replace(
        facts,
        peak=curve.peak_at(view.at_s),
        peak_until_s=curve.peak_until_s(view.at_s),
        prices=curve.series,
        basis=curve.basis,
    )


def free_nodes(jobs: Iterable[Job], nodes: Iterable[Node]) -> dict[ResourcePool, int]:
    """Return how many nodes each competition of pending jobs could be given now; sleeping ones are woken for it."""
    free = Counter(node.partitions for node in nodes if is_free(node))
    lines = {resource_pool(job) for job in jobs if job.state is JobState.PENDING}
    return {
        line: sum(count for partitions, count in free.items() if not set(partitions).isdisjoint(line[0]))
        for line in lines
    }


def is_free(node: Node) -> bool:
    """Whether the scheduler could give the node to a job."""
    return node.use is NodeUse.FREE and not (node.closed or node.failed or node.reserved)
