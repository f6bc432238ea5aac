"""The state of the power loop over a restart."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from model_room import ModelNode, model_lookout
from scheduler_values import node_of, record_of
from small_site import cluster_snapshot, site_of

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import Effect, Hold, Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import DesiredState, DesiredStateChange
from offpeak.power.live.cycle_watch import CycleWatch, watch_to_json
from offpeak.power.live.power_plan import PowerMemory, PowerPlan
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.node_memory import TIMES_KEY, WATCH_KEY, save_node_records
from offpeak.services.agent.power_loop import PowerController
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings

pytestmark = pytest.mark.quick


def small_site(lookout) -> SimpleNamespace:
    """Return what the controller reads of the site: the nodes, their poller, and the settings."""
    settings, transport = SimpleNamespace(agent=AgentSettings()), SimpleNamespace(timeout_s=1.0)
    return SimpleNamespace(machines=lookout.machines, poller=lookout, transport=transport, settings=settings)


def test_a_desired_state_of_the_plan_is_in_the_ledger_though_nothing_else_has_changed(tmp_path: Path) -> None:
    lookout = model_lookout({"n1": ModelNode("n1")})
    site = small_site(lookout)
    refused = Refusal("no_job_now", "n1: is not drained: a job may start there", "close it")

    async def refuse(_effect: Effect, _before_sending: Callable[[], None]) -> Refusal:
        return refused

    nodes = SimpleNamespace(order=refuse, door=SimpleNamespace(history=SimpleNamespace(begin_sweep=lambda: None)))
    orders = SimpleNamespace(nodes=nodes, scheduler=None)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    controller = PowerController(lambda: site, ledger, ProblemLog(), time.time)
    controller.load()
    asyncio.run(controller.poll_first({}))
    for desired_state, desired in ((DesiredState(NodeOrder.SOFT_OFF, "offpeak", 0.0, "idle"), "soft_off"), (None, "")):
        plan = PowerPlan({"n1": desired_state}, {}, (), (), PowerMemory())
        asyncio.run(controller.carry_out(plan, orders))
        state_row = ledger.latest()["n1"]
        assert (state_row.observed, state_row.desired) == ("on", desired)
        assert ("refused (no_job_now): n1: is not drained" in state_row.why) is (desired_state is not None)
    ledger.close()


def test_order_of_an_admin_during_a_round_is_kept(tmp_path: Path) -> None:
    node = ModelNode("n1", state="off")
    lookout = model_lookout({"n1": node})
    site = small_site(lookout)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    controller = PowerController(lambda: site, ledger, ProblemLog(), time.time)
    controller.load()
    morning = DesiredState(NodeOrder.ON, "admin jo", 0.0, "morning")
    given: list[tuple[str, str]] = []

    async def give(effect: Effect, _before_sending: Callable[[], None]) -> Outcome:
        given.append((effect.order, effect.by))
        return Outcome("done", "accepted")

    nodes = SimpleNamespace(order=give, door=SimpleNamespace(history=SimpleNamespace(begin_sweep=lambda: None)))
    orders = SimpleNamespace(nodes=nodes, scheduler=None)
    ours = PowerPlan({"n1": DesiredState(NodeOrder.SOFT_OFF, "offpeak", 0.0, "idle")}, {}, (), (), PowerMemory())

    async def between_plan_and_orders() -> None:
        await controller.poll_first({})
        controller.receive("n1", DesiredStateChange(morning))
        await controller.carry_out(ours, orders)

    asyncio.run(between_plan_and_orders())
    # The scheduler has to be told before the node boots: that is the next plan's.
    assert (controller.records.nodes["n1"].desired, given) == (morning, [])
    asyncio.run(controller.sweep(orders, {}))
    assert (controller.records.nodes["n1"].desired, given) == (morning, [("on", "admin jo")])

    async def during_the_look() -> None:
        controller.receive("n1", DesiredStateChange(None))
        looking = asyncio.create_task(controller.sweep(orders, {}))
        await asyncio.sleep(0)
        controller.receive("n1", DesiredStateChange(morning))
        await looking

    asyncio.run(during_the_look())
    assert controller.records.nodes["n1"].desired == morning

    async def against_what_was_due() -> None:
        node.state = "on"
        controller.receive("n1", DesiredStateChange(ours.desired_states["n1"]))
        await controller.plan(cluster_snapshot([node_of("n1")]), site_of(1))
        controller.receive("n1", DesiredStateChange(morning))
        given.clear()
        await controller.carry_out(PowerPlan({}, {}, (), (), PowerMemory()), orders)

    asyncio.run(against_what_was_due())
    assert (controller.records.nodes["n1"].desired, given) == (morning, [])
    ledger.close()


def test_agent_clears_the_problem_of_the_ledger_when_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger, problem_log = Ledger(LedgerSettings(url=f"sqlite:///{file}"), patience_s=0.5), ProblemLog()
    ledger._bound_s = 300.0
    ledger.ready()
    ledger.hold("n1", Hold("jo", "new DIMM"), time.time())
    controller = PowerController(lambda: SimpleNamespace(machines={}), ledger, problem_log, time.time)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        asyncio.run(controller.read_holds())
        (problem,) = problem_log.problems
        assert problem.startswith("ledger: ")
        assert controller.known.hold_of("n1") is None
        other.execute("ROLLBACK")

    def is_back() -> bool:
        asyncio.run(controller.read_holds())
        return problem_log.problems == ()

    # The ledger tries again every few seconds.
    wait_until(is_back, what="the ledger to be well again")
    assert controller.known.hold_of("n1") == Hold("jo", "new DIMM")
    ledger.close()


def test_nodes_are_looked_at_before_anything_is_decided_by_what_a_run_before_has_left(tmp_path: Path) -> None:
    node = ModelNode("n1")
    lookout = model_lookout({"n1": node})
    site = small_site(lookout)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    save_node_records(ledger, NodeRecords(), NodeRecords({"n1": record_of(state=NodeState.OFF)}), monotonic_s=0.0)
    controller = PowerController(lambda: site, ledger, ProblemLog(), time.time)
    controller.load()
    asyncio.run(controller.poll_first({"n1": SchedulerState.UP}))
    assert (str(controller.records.nodes["n1"].observed.state), controller.records.nodes["n1"].surprises) == ("on", ())
    assert ledger.latest()["n1"].observed == "on"
    node.state = "off"
    asyncio.run(controller.poll_first({}))
    assert str(controller.records.nodes["n1"].observed.state) == "on"
    assert node.log == []
    ledger.close()


@pytest.mark.parametrize(
    ("saved", "is_first"),
    [
        ({}, True),
        # Before the upgrade nodes have slept and booted: the first one is watched, and no admin has to name it.
        ({TIMES_KEY: '{"compute": {"on after off": [200.0]}}'}, False),
        ({WATCH_KEY: json.dumps(watch_to_json(CycleWatch(terms="Slurm", report="n1 went through")))}, False),
        ({WATCH_KEY: '{"is_proven": "of another version"}'}, True),
    ],
)
def test_an_admin_has_to_name_the_first_node_only_where_none_has_slept(
    tmp_path: Path, saved: dict[str, str], is_first: bool
) -> None:
    site = SimpleNamespace(machines={})
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    for key, text in saved.items():
        ledger.remember(key, text)
    controller = PowerController(lambda: site, ledger, ProblemLog(), time.time)
    controller.load()
    assert controller.watch.is_first is is_first
    assert controller.watch.is_proven is (controller.watch.report != "")
    ledger.close()
