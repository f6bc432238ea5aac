"""The queue loop carries out what the modes allow, after recording it, and records the rest once."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from queue_site import NOW_S, RULES, a_job, plain_cluster
from recording_scheduler import RecordingScheduler

from offpeak.door.effect import Mode
from offpeak.errors import CannotWrite, OffpeakError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.records import latest_actions
from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.queue_plan import QueuePlan
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.window_policy import WindowView
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.prices.peak import Peak
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.queue_loop import QueueController, group_plan, make_advice
from offpeak.services.agent.site_context import PartitionModes
from offpeak.settings.ledger import LedgerSettings

pytestmark = pytest.mark.quick

DRAWS = {"1": 400.0, "2": 100.0}
JOBS = (a_job(1), a_job(2))


class Room:
    """A queue controller with a ledger of its own, and a scheduler that keeps its orders."""

    def __init__(self, folder: Path, mode: Mode, *, may_rank: bool = True) -> None:
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.modes, self.scheduler = PartitionModes(mode, {}, may_rank), RecordingScheduler()
        door = make_scheduler_door(
            self.ledger,
            lambda _: mode,
            lambda: 1000.0,
            nodes=(),
            hold_of=lambda _: None,
            may_rank=lambda: may_rank,
        )
        self.orders, self.problems = SchedulerOrders(door, self.scheduler), ProblemLog()
        self.controller = QueueController(self.ledger, self.problems)

    def round(
        self, jobs: tuple[object, ...] = JOBS, rules: QueueRules = RULES, *, most_changes: int | None = None
    ) -> None:
        async def once() -> None:
            facts = QueueFacts(
                NOW_S,
                jobs,  # type: ignore[arg-type]
                Ranking.VALUE,
                peak=Peak.ON_PEAK,
                node_power_w=DRAWS,
                cluster=plain_cluster(JOBS),
                marks=await self.controller.marks(),
                notices=self.controller.comments,
            )
            await self.controller.run_cycle(facts, rules, self.orders, self.modes, most_changes=most_changes)

        asyncio.run(once())

    @property
    def sent(self) -> list[str]:
        return [what for what, _ in self.scheduler.reported]


def test_in_active_mode_marks_are_on_the_disk_before_the_order_is_written(tmp_path: Path) -> None:
    room = Room(tmp_path, Mode.ACTIVE)
    room.round()
    assert room.scheduler.reported == [("rank", {"1": JOBS[1].priority, "2": JOBS[0].priority})]
    marks = {mark.job: mark for mark in room.ledger.marks()}
    assert (marks["1"].was, marks["1"].to) == (JOBS[0].priority, JOBS[1].priority)
    swapped = (JOBS[0]._replace(priority=JOBS[1].priority), JOBS[1]._replace(priority=JOBS[0].priority))
    room.round(swapped)
    assert len(room.sent) == 1
    room.ledger.close()


def test_in_shadow_mode_what_would_be_done_is_recorded_once_and_nothing_is_marked(tmp_path: Path) -> None:
    room = Room(tmp_path, Mode.SHADOW)
    room.round()
    room.round()
    assert room.sent == []
    assert room.ledger.marks() == ()
    room.ledger.settle()
    assert set(room.controller.changed.latest) == {"job 1", "job 2"}
    assert room.ledger.recent(0.0) == ()
    room.ledger.close()


def test_in_advise_mode_owners_get_one_comment_and_nothing_else_is_done(tmp_path: Path) -> None:
    room = Room(tmp_path, Mode.ADVISE)
    room.round()
    room.round()
    assert room.sent == ["notify"]
    ((_, texts),) = room.scheduler.reported
    assert "would be moved back: behind 2" in str(texts["1"])
    assert room.ledger.marks() == ()
    room.ledger.close()


def last_first(views: Sequence[WindowView]) -> list[list[int]]:
    return [list(reversed(range(len(view.size)))) for view in views]


OWN = replace(RULES, policy="own", own_policy=last_first)


def test_the_order_of_an_own_policy_that_is_allowed_is_written(tmp_path: Path) -> None:
    room = Room(tmp_path, Mode.ACTIVE)
    room.round(rules=OWN)
    assert room.scheduler.reported == [("rank", {"1": JOBS[1].priority, "2": JOBS[0].priority})]
    assert {mark.kind for mark in room.ledger.marks()} == {"rank"}
    room.ledger.close()


@pytest.mark.parametrize("mode", list(Mode))
def test_the_order_of_an_own_policy_is_only_recorded_until_it_is_allowed(tmp_path: Path, mode: Mode) -> None:
    room = Room(tmp_path, mode, may_rank=False)
    room.round(rules=OWN)
    room.round(rules=OWN)
    room.ledger.settle()
    assert room.sent == []
    assert room.ledger.marks() == ()
    assert set(room.controller.changed.latest) == {"job 1", "job 2"}
    room.ledger.close()
    with open_ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as connection:
        (refused,) = latest_actions(connection, most=10)
    assert (refused["subject"], refused["order"]) == ("queue of batch", "rank")
    assert "own policy is only recorded" in str(refused)


def test_rejected_changes_starve_no_others_of_a_user_with_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tuple(a_job(at) for at in range(70))
    begin_s = {str(at): NOW_S + 3600 for at in range(60)}
    plan = QueuePlan({str(at): at for at in range(60, 70)}, begin_s, {"60": "waits"})
    room = Room(tmp_path, Mode.ACTIVE)
    room.scheduler.refuses = dict.fromkeys(begin_s, "Access/permission denied")
    monkeypatch.setattr("offpeak.services.agent.queue_loop.plan_queue", lambda *_: plan)
    for _ in range(5):
        room.round(jobs, most_changes=30)
    sent = [(what, len(its)) for what, its in room.scheduler.reported]
    assert sent == [
        *[("defer", 30), ("defer", 30)],
        *[("rank", 10), ("defer", 19), ("notify", 1)],
        # All have been tried, and what is still wanted is tried in turn.
        ("defer", 30),
        *[("rank", 10), ("defer", 19), ("notify", 1)],
    ]
    assert {job for what, its in room.scheduler.reported[2:] if what == "defer" for job in its} == begin_s.keys()
    assert room.controller.deferred == frozenset()
    room.scheduler.refuses = {}
    room.round(jobs)
    assert room.controller.deferred == begin_s.keys()
    room.ledger.close()


def test_an_own_policy_that_fails_is_one_problem_and_changes_nothing(tmp_path: Path) -> None:
    def fails(_views: Sequence[WindowView]) -> list[list[int]]:
        raise OffpeakError("the window policy 'own' failed: it is tired")

    room = Room(tmp_path, Mode.ACTIVE)
    room.round(rules=replace(OWN, own_policy=fails))
    assert room.sent == []
    why = "queue policy: the queue keeps the site's order: the window policy 'own' failed: it is tired"
    assert room.problems.problems == (why,)
    room.round(rules=OWN)
    assert room.sent == ["rank"]
    assert room.problems.problems == ()
    room.ledger.close()


def test_without_a_ledger_no_job_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(tmp_path, Mode.ACTIVE)

    def away(_marks: object) -> None:
        raise CannotWrite("the disk is full")

    monkeypatch.setattr(room.ledger, "remember_marks", away)
    with pytest.raises(CannotWrite):
        room.round()
    assert room.sent == []
    room.ledger.close()


def test_each_group_has_what_is_planned_for_its_partitions() -> None:
    jobs = {str(at): a_job(at, partitions=partitions) for at, partitions in enumerate([("a",), ("b",), ("a", "b")])}
    plan = QueuePlan({"0": 5, "2": 7}, {"1": 9}, {"1": "waits"}, (JobMark("0", 0.0, "rank", 1, 5, 0.0),))
    groups = {group.name: group for group in group_plan(plan, jobs)}
    assert {name: dict(group.rank) for name, group in groups.items()} == {"a": {"0": 5}, "b": {}, "a,b": {"2": 7}}
    assert (groups["b"].begin_s, groups["b"].tell) == ({"1": 9}, {"1": "waits"})


def test_owners_of_passed_jobs_get_a_comment_though_nothing_is_written() -> None:
    """Of two equal priorities one is raised, and both jobs change places."""
    jobs = {str(at): a_job(at) for at in range(3)}
    kinds = ("moved back", "moved forward", "keeps its place")
    decisions = [DecisionRecord(0.0, f"job {at}", what, "why") for at, what in enumerate(kinds)]
    (group,) = group_plan(QueuePlan({"1": 1}, decisions=tuple(decisions)), jobs)
    texts = make_advice(group, {decision.subject: decision for decision in decisions}, {})
    assert texts == {"0": "would be moved back: why", "1": "would be moved forward: why"}


def test_partitions_of_one_mode_are_one_group() -> None:
    jobs = {str(at): a_job(at, partitions=(partition,)) for at, partition in enumerate("abc")}
    modes = PartitionModes(Mode.ACTIVE, {"b": Mode.SHADOW})
    groups = group_plan(QueuePlan({"0": 5, "1": 6, "2": 7}), jobs, modes.of)
    assert {group.name: dict(group.rank) for group in groups} == {"a,c": {"0": 5, "2": 7}, "b": {"1": 6}}
