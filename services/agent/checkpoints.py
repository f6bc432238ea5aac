"""Asks running jobs for their checkpoints and requeues them, as far as the mode of each partition allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from offpeak.door.effect import Mode
from offpeak.ledger.ledger import Ledger
from offpeak.model.constants import HOUR_S
from offpeak.plugin.queue_hook.checkpoints import (
    GOES_ON,
    MOST_AT_ONCE,
    choose_checkpoints,
    find_signalled,
    plan_checkpoints,
    plan_returns,
)
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules, StartConstraint
from offpeak.plugin.scheduler.job import join_array_tasks
from offpeak.power.door.scheduler_orders import SchedulerOrders
from offpeak.services.agent.loop import DecisionFilter, ProblemLog
from offpeak.services.agent.observer import Observer
from offpeak.services.agent.queue_loop import QueueController
from offpeak.services.agent.site_context import PartitionModes

CHECKPOINTS = "checkpoints"
"""The subject of their problems in the log."""


@dataclass
class CheckpointController:
    """Carries out the steps of jobs with checkpoints.

    `events` are jobs that an event stops, with their begin times. `changed` has the last decision about each job.
    `signalled` are the jobs that were asked. `go_on` are those that the last cycle left running, with the reasons: they
    wrote no checkpoint, or nothing would show it.
    """

    queue: QueueController
    ledger: Ledger
    problem_log: ProblemLog
    observer: Observer
    modes: Callable[[], PartitionModes]
    changed: DecisionFilter = field(default_factory=lambda: DecisionFilter(again_after_s=float(HOUR_S)))
    events: Mapping[str, StartConstraint] = field(default_factory=dict)
    signalled: frozenset[str] = frozenset()
    go_on: Mapping[str, str] = field(default_factory=dict)

    async def run_cycle(self, facts: QueueFacts, rules: QueueRules, orders: SchedulerOrders) -> None:
        """Take the next step of each such job. CannotWrite: no job gets a signal, and none is requeued."""
        signalled, choices = find_signalled(facts), choose_checkpoints(facts, rules, self.events)
        new = [job for job in choices if job not in signalled][: 2 * MOST_AT_ONCE]
        permits = await self.observer.requeue_permits([*signalled, *new])
        plan = plan_checkpoints(facts, rules, choices, permits)
        self.go_on = {
            each.subject.removeprefix("job "): each.reason for each in plan.decisions if each.decided == GOES_ON
        }
        written = self.changed.of(plan.decisions, {f"job {job.job_id}" for job in facts.jobs})
        self.ledger.write_decisions(written)
        modes = self.modes()
        jobs, is_new = {job.job_id: job for job in facts.jobs}, {decision.subject for decision in written}
        steps = {job: jobs[job] for job in (*plan.signals, *plan.requeue)}
        # In the other modes the door records once what offpeak would have done.
        steps = {
            name: job
            for name, job in steps.items()
            if modes.of(job.partitions) is Mode.ACTIVE or f"job {name}" in is_new
        }
        active = {name for name in plan.signals if modes.of(jobs[name].partitions) is Mode.ACTIVE}
        self.signalled = frozenset(signalled) | active
        problems = list(plan.problems)
        for name, job in steps.items():
            partitions, called = ",".join(job.partitions), permits[name].name
            signal, mark = plan.signals.get(name) or ("", plan.requeue[name])
            if self.modes().of(job.partitions) is Mode.ACTIVE:
                await self.queue.remember([mark])
            if signal:
                result = await orders.signal(partitions, {called: signal}, why=f"job {name} gets {signal}")
            else:
                result = await orders.requeue(partitions, [called], why=f"job {name} has written its checkpoint")
            if result.failed:
                problems.append(f"job {name}: {'; '.join(result.failed.values())}")
                await self.queue.forget([mark])
        self.problem_log.report(CHECKPOINTS, "; ".join(problems) or None)
        await self.queue.forget(plan.forget)
        if plan.requeue:
            self.observer.forget()
            view = await self.observer.view(at_most_s=0.0)
            facts = replace(facts, jobs=join_array_tasks(view.jobs)) if view else facts
        await self._defer(replace(facts, marks=await self.queue.marks()), orders)

    async def _defer(self, facts: QueueFacts, orders: SchedulerOrders) -> None:
        """Give requeued jobs their begin times once they wait."""
        begin_s, given, served = plan_returns(facts)
        jobs = {job.job_id: job for job in facts.jobs}
        await self.queue.remember(given)
        await self.queue.forget(served)
        for name, at_s in begin_s.items():
            partitions = ",".join(jobs[name].partitions)
            await orders.defer(partitions, {name: at_s}, why=f"job {name} waits after its checkpoint")
