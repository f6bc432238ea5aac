"""The agent starts a scheduling cycle when a job can start that could not before, once, and never otherwise."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from queue_site import a_job
from recording_scheduler import RecordingScheduler

from offpeak.door.effect import Mode
from offpeak.errors import SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.power.door.scheduler_orders import SchedulerOrders, make_scheduler_door
from offpeak.services.agent.cycles import CycleStarter
from offpeak.services.agent.observer import ClusterObservation
from offpeak.settings.ledger import LedgerSettings

pytestmark = pytest.mark.quick

NOW_S = 1_795_300_000


class SilentScheduler(RecordingScheduler):
    """A scheduler that may not answer."""

    is_silent = False

    def start_cycle(self, jobs: Sequence[str]) -> dict[str, str]:
        super().start_cycle(jobs)
        if self.is_silent:
            raise SchedulerError("qmgr: no answer")
        return {}


class Site:
    """A starter, and a scheduler that keeps its orders."""

    def __init__(self, folder: Path, *, needs_cycles: bool = True, mode: Mode = Mode.ACTIVE) -> None:
        ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.scheduler, self.starter = SilentScheduler(), CycleStarter()
        door = make_scheduler_door(ledger, lambda _: mode, lambda: 1000.0, nodes=(), hold_of=lambda _: None)
        self.orders = SchedulerOrders(door, self.scheduler)
        self.traits = SchedulerTraits(
            "openpbs", "23", Ranking.OFFSET, power_saving=True, boot_s=60, shared_nodes=True, needs_cycles=needs_cycles
        )

    def follow(self, at_s: int, nodes: dict[str, bool], *jobs: Job) -> list[str]:
        """Return the jobs for which a cycle was started by this view; `nodes` tells which are up."""
        before = len(self.scheduler.reported)
        view = SchedulerView(NOW_S + at_s, jobs, tuple(a_node(name, up) for name, up in nodes.items()), ())
        asyncio.run(self.starter.follow(ClusterObservation(view, self.traits, None), self.orders))
        return [job for what, jobs in self.scheduler.reported[before:] if what == "start_cycle" for job in jobs]


def a_node(name: str, is_up: bool) -> Node:
    power = PowerState.ON if is_up else PowerState.POWERING_ON
    return Node(
        name, "", NodeUse.FREE, power, False, False, is_up, False, False, "", "", None, ("batch",), (), 8, 0, 1, None,
        None,
    )  # fmt: skip


def planned(number: int, hosts: str, **fields: Any) -> Job:
    return a_job(number, **{"reason": "", "start_s": NOW_S, "hosts": hosts, **fields})


def test_once_all_nodes_of_a_job_are_up(tmp_path: Path) -> None:
    site, wide = Site(tmp_path), planned(1, "n1,n2")
    assert site.follow(0, {"n1": False, "n2": False}, wide) == []
    assert site.follow(5, {"n1": True, "n2": False}, wide) == []
    assert site.follow(10, {"n1": True, "n2": True}, wide) == ["1"]
    assert site.follow(15, {"n1": True, "n2": True}, wide, planned(2, "n1")) == []


def test_once_the_time_of_a_deferred_job_has_come_also_if_it_is_released_early(tmp_path: Path) -> None:
    site, up = Site(tmp_path), {"n1": True}
    assert site.follow(0, up, a_job(1, begin_s=NOW_S + 20)) == []
    assert site.starter.next_begin_s == NOW_S + 20
    assert site.follow(21, up, planned(1, "n1", begin_s=NOW_S + 20)) == ["1"]
    assert site.follow(26, up, planned(1, "n1", begin_s=NOW_S + 20), a_job(2, begin_s=NOW_S + 900)) == []
    assert site.follow(31, up, planned(2, "n1")) == ["2"]
    assert site.starter.next_begin_s is None


def test_a_cycle_that_failed_is_tried_again_and_one_that_a_mode_refuses_is_not(tmp_path: Path) -> None:
    site, job = Site(tmp_path), planned(1, "n1")
    site.scheduler.is_silent = True
    assert site.follow(0, {"n1": True}, job) == ["1"]
    assert site.follow(4, {"n1": True}, job) == []
    assert site.follow(5, {"n1": True}, job) == ["1"]
    site.scheduler.is_silent = False
    assert site.follow(14, {"n1": True}, job) == []
    assert site.follow(15, {"n1": True}, job) == ["1"]
    assert site.follow(20, {"n1": True}, job) == []


def test_a_clock_that_is_set_back_stops_no_cycles(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.follow(7200, {"n1": False}, planned(1, "n1")) == []
    early = planned(1, "n1", start_s=NOW_S - 7200)
    assert site.follow(0, {"n1": False}, early) == []
    assert site.follow(5, {"n1": True}, early) == ["1"]


@pytest.mark.parametrize("given", [{"needs_cycles": False}, {"mode": Mode.SHADOW}])
def test_none_where_the_scheduler_needs_none_and_in_mode_shadow(tmp_path: Path, given: dict[str, Any]) -> None:
    assert Site(tmp_path, **given).follow(0, {"n1": True}, planned(1, "n1")) == []
