"""What the agent tells a broker of clusters: made when one asks, in a thread, once for each look at the scheduler."""

import asyncio
from collections.abc import Mapping

from offpeak.errors import OffpeakError
from offpeak.model.step_series import Series, merge
from plugin.federation.site_report import Curve, SiteReport, WaitTable, make_curve
from plugin.scheduler.job import HOLDING
from plugin.scheduler.node import Node, NodeUse
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.agent.agent import Agent
from power.agent.voice import LOG
from power.live.pool_state import is_waiting
from predictors.feeds.port import Window, clip_series

PATIENCE_S = 2.0
"""Who asks does not wait longer for a plan: the first one loads the engine. It is told the one before, if any."""


class SiteWords:
    """Gives what there is to tell; waits are planned once for each look."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._planned_s, self._waits = -1, WaitTable()
        self._planning: asyncio.Task[None] | None = None

    async def said(self) -> SiteReport | None:
        """Return what is known since the last round of the queue, None before the first."""
        agent = self._agent
        view, traits = agent.observer.latest, agent.observer.traits
        if view is None or traits is None:
            return None
        await self._plan(view, traits, agent.facts.expected_run_s if agent.facts else {})
        curve = agent.prices.curve
        return SiteReport(
            at_unix_s=view.at_s,
            cluster=traits.cluster,
            scheduler=f"{traits.name} {traits.version}",
            cores=sum(node.cpus for node in view.nodes),
            idle_cores=sum(idle_cores(node, shared=traits.shared_nodes) for node in view.nodes),
            queued=sum(is_waiting(job, view.at_s) for job in view.jobs),
            running=sum(job.state in HOLDING for job in view.jobs),
            waits=self._waits,
            price=_ahead(curve.series if curve else None, view.at_s),
            carbon=_ahead(agent.prices.carbon, view.at_s),
        )

    async def _plan(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        if self._planning is None and self._planned_s != view.at_s:
            self._planning = asyncio.create_task(self._planned(view, traits, dict(run_s)))
        if self._planning is not None:
            await asyncio.wait({self._planning}, timeout=PATIENCE_S)

    async def _planned(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        # It loads the engine, which an agent that no broker asks does without.
        from power.live.expected_waits import simulate_waits

        try:
            self._waits = await asyncio.to_thread(simulate_waits, view, run_s, shared=traits.shared_nodes)
            self._planned_s = view.at_s
        except OffpeakError as problem:
            self._waits = WaitTable()
            LOG.warning("waits cannot be planned: %s", problem)
        finally:
            self._planning = None


def idle_cores(node: Node, *, shared: bool) -> int:
    """Return how many cores of the node a job could be given now; one that sleeps is woken for it."""
    kept = node.failed or node.reserved or (node.closed and not node.closed_by_us)
    if kept or node.use is NodeUse.UNKNOWN:
        return 0
    return max(node.cpus - node.cpus_used, 0) if shared or node.use is NodeUse.FREE else 0


def _ahead(series: Series | None, now_s: int) -> Curve | None:
    """Return what is known or forecast from now on, None where nothing is."""
    if series is None or series.end_s <= now_s:
        return None
    ahead = clip_series(series, Window(now_s, series.end_s))
    return make_curve(merge(ahead)) if ahead is not None and ahead.known.any() else None
