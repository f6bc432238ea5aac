"""The queue loop: pending jobs are put in order, consenting ones held back, as far as each partition's mode goes."""

import asyncio
from collections.abc import Mapping

from offpeak.door.effect import US, Mode
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobMark
from plugin.queue_hook.facts import QueueFacts, QueueRules
from plugin.queue_hook.queue_plan import QueuePlan, plan_queue
from power.agent.changed import Changed
from power.agent.modes import Modes
from power.agent.queue_groups import Group, advice, grouped
from power.agent.voice import Voice
from power.door.scheduler_orders import SchedulerOrderResult, SchedulerOrders


class QueueLoop:
    """`changed` knows what was decided last of each job, `told` what its owner was told last. `by`: who orders it."""

    def __init__(self, ledger: Ledger, voice: Voice, *, by: str = US) -> None:
        self._ledger, self._voice, self._by = ledger, voice, by
        self._marks: tuple[JobMark, ...] | None = None
        self._asked: dict[Mode, Group] = {}
        self.told: dict[str, str] = {}
        self.changed = Changed()

    async def marks(self) -> tuple[JobMark, ...]:
        """Return what we have changed of jobs; CannotWrite or BadLedger where nobody can tell."""
        if self._marks is None:
            self._marks = await asyncio.to_thread(self._ledger.marks)
        return self._marks

    async def round(self, facts: QueueFacts, rules: QueueRules, orders: SchedulerOrders, modes: Modes) -> QueuePlan:
        """Return the plan, which is carried out as far as the modes go; CannotWrite, and no job is changed."""
        plan = await asyncio.to_thread(plan_queue, facts, rules)
        jobs = {job.job_id: job for job in facts.jobs}
        self._ledger.write_decisions(self.changed.of(plan.decisions, {f"job {job}" for job in jobs}))
        await self._remember(list(plan.seen))
        # One order for all partitions of a mode: a large site has dozens of them, and each order takes its time.
        for group in grouped(plan, jobs, modes.of):
            await self._carry_out(group, plan, orders, modes.of(group.partitions))
        if plan.forget:
            await asyncio.to_thread(self._ledger.forget_marks, plan.forget)
            self._marks = None
        return plan

    async def _carry_out(self, group: Group, plan: QueuePlan, orders: SchedulerOrders, mode: Mode) -> None:
        if mode is not Mode.ACTIVE and self._asked.get(mode) == group:
            # The record of what would have been done is not written anew each cycle.
            return
        self._asked[mode] = group
        if mode is Mode.ACTIVE:
            await self._remember(
                [mark for mark in plan.remember if mark.job in group.rank or mark.job in group.begin_s]
            )
        if group.rank:
            why = f"{len(group.rank)} jobs in another order"
            self._hear(await orders.rank(group.name, group.rank, why=why, by=self._by), mode)
        if group.begin_s:
            why = f"{len(group.begin_s)} jobs begin at another time"
            self._hear(await orders.defer(group.name, group.begin_s, why=why, by=self._by), mode)
        texts = advice(group, self.changed.latest, self.told) if mode is Mode.ADVISE else group.tell
        if texts:
            answer = await orders.tell(group.name, texts, why=f"{len(texts)} owners are told", by=self._by)
            self._hear(answer, mode)
            self.told |= _heard(group.tell, answer)

    async def _remember(self, marks: list[JobMark]) -> None:
        if marks:
            await asyncio.to_thread(self._ledger.remember_marks, marks)
            self._marks = None

    def _hear(self, answer: SchedulerOrderResult, mode: Mode) -> None:
        """Say why jobs were not changed: a scheduler that has begun to refuse them is worth a line."""
        whys = dict.fromkeys(answer.failed.values())
        said = f"{len(answer.failed)} jobs were not changed: {'; '.join(whys)}" if whys else None
        self._voice.trouble(f"queue in mode {mode}", said)


def _heard(tell: Mapping[str, str], answer: SchedulerOrderResult) -> dict[str, str]:
    return {job: text for job, text in tell.items() if answer.done and job not in answer.failed}
