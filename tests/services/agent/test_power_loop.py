"""What the power loop takes up after a restart."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from model_room import ModelNode, model_lookout
from scheduler_values import node_of, record_of
from small_site import cluster_snapshot, site_of

from offpeak.door.effect import Effect, Hold, Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from plugin.scheduler.node import SchedulerState
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_record import DesiredState, DesiredStateChange, NodeState
from power.live.cycle_memory import PowerMemory
from power.live.power_plan import PowerPlan
from services.agent.loop import ProblemLog
from services.agent.node_memory import save_node_records
from services.agent.power_loop import PowerLoop
from sim_backend.local_slurm.processes import wait_until


def test_a_wish_of_the_plan_is_in_the_ledger_though_nothing_else_has_changed(tmp_path: Path) -> None:
    lookout = model_lookout({"n1": ModelNode("n1")})
    settings = SimpleNamespace(agent=AgentSettings())
    parts = SimpleNamespace(
        lookout=lookout, machines=lookout.machines, wire=SimpleNamespace(timeout_s=1.0), settings=settings
    )
    refused = Refusal("no_job_now", "n1: is not drained: a job may start there", "close it")

    async def refuse(_effect: Effect, _before_sending: Callable[[], None]) -> Refusal:
        return refused

    nodes = SimpleNamespace(order=refuse, door=SimpleNamespace(history=SimpleNamespace(begin_sweep=lambda: None)))
    orders = SimpleNamespace(nodes=nodes, scheduler=None)
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    loop = PowerLoop(ledger, ProblemLog(), time.time)
    loop.take_up(parts)
    asyncio.run(loop.look_first(parts, {}))
    for wish, desired in ((DesiredState(NodeOrder.SOFT_OFF, "offpeak", 0.0, "idle"), "soft_off"), (None, "")):
        plan = PowerPlan({"n1": wish}, {}, (), (), PowerMemory())
        asyncio.run(loop.carry_out(plan, parts, orders))
        said = ledger.latest()["n1"]
        assert (said.observed, said.desired) == ("on", desired)
        assert ("refused (no_job_now): n1: is not drained" in said.why) is (wish is not None)
    ledger.close()


def test_what_an_admin_orders_in_the_middle_of_a_round_outlasts_it(tmp_path: Path) -> None:
    node = ModelNode("n1", state="off")
    lookout = model_lookout({"n1": node})
    parts = SimpleNamespace(
        lookout=lookout,
        machines=lookout.machines,
        wire=SimpleNamespace(timeout_s=1.0),
        settings=SimpleNamespace(agent=AgentSettings()),
    )
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    loop = PowerLoop(ledger, ProblemLog(), time.time)
    loop.take_up(parts)
    morning = DesiredState(NodeOrder.ON, "admin jo", 0.0, "morning")
    given: list[tuple[str, str]] = []

    async def give(effect: Effect, _before_sending: Callable[[], None]) -> Outcome:
        given.append((effect.order, effect.by))
        return Outcome("done", "accepted")

    nodes = SimpleNamespace(order=give, door=SimpleNamespace(history=SimpleNamespace(begin_sweep=lambda: None)))
    orders = SimpleNamespace(nodes=nodes, scheduler=None)
    ours = PowerPlan({"n1": DesiredState(NodeOrder.SOFT_OFF, "offpeak", 0.0, "idle")}, {}, (), (), PowerMemory())

    async def between_plan_and_orders() -> None:
        await loop.look_first(parts, {})
        loop.hear("n1", DesiredStateChange(morning), parts)
        await loop.carry_out(ours, parts, orders)

    asyncio.run(between_plan_and_orders())
    # The scheduler has to be told before the node boots: that is the next plan's.
    assert (loop.lives.nodes["n1"].desired, given) == (morning, [])
    asyncio.run(loop.look(parts, orders, {}))
    assert (loop.lives.nodes["n1"].desired, given) == (morning, [("on", "admin jo")])

    async def during_the_look() -> None:
        loop.hear("n1", DesiredStateChange(None), parts)
        looking = asyncio.create_task(loop.look(parts, orders, {}))
        await asyncio.sleep(0)
        loop.hear("n1", DesiredStateChange(morning), parts)
        await looking

    asyncio.run(during_the_look())
    assert loop.lives.nodes["n1"].desired == morning

    async def against_what_was_due() -> None:
        node.state = "on"
        loop.hear("n1", DesiredStateChange(ours.desired_states["n1"]), parts)
        await loop.plan(cluster_snapshot([node_of("n1")]), site_of(1))
        loop.hear("n1", DesiredStateChange(morning), parts)
        given.clear()
        await loop.carry_out(PowerPlan({}, {}, (), (), PowerMemory()), parts, orders)

    asyncio.run(against_what_was_due())
    assert (loop.lives.nodes["n1"].desired, given) == (morning, [])
    ledger.close()


def test_the_trouble_of_a_ledger_is_cleared_when_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger, problem_log = Ledger(LedgerSettings(url=f"sqlite:///{file}")), ProblemLog()
    ledger.ready()
    ledger.hold("n1", Hold("jo", "new DIMM"), time.time())
    loop, parts = PowerLoop(ledger, problem_log, time.time), SimpleNamespace(machines={})
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        asyncio.run(loop.read_holds(parts))
        (trouble,) = problem_log.problems
        assert trouble.startswith("ledger: ")
        assert loop.known.hold_of("n1") is None
        other.execute("ROLLBACK")

    def is_back() -> bool:
        asyncio.run(loop.read_holds(parts))
        return problem_log.problems == ()

    # The ledger tries again every few seconds.
    wait_until(is_back, what="the ledger to be well again")
    assert loop.known.hold_of("n1") == Hold("jo", "new DIMM")
    ledger.close()


def test_nodes_are_looked_at_before_anything_is_decided_by_what_a_run_before_has_left(tmp_path: Path) -> None:
    node = ModelNode("n1")
    lookout = model_lookout({"n1": node})
    settings = SimpleNamespace(agent=AgentSettings())
    parts = SimpleNamespace(
        lookout=lookout, machines=lookout.machines, wire=SimpleNamespace(timeout_s=1.0), settings=settings
    )
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger'}"))
    save_node_records(ledger, NodeRecords(), NodeRecords({"n1": record_of(state=NodeState.OFF)}), monotonic_s=0.0)
    loop = PowerLoop(ledger, ProblemLog(), time.time)
    loop.take_up(parts)
    asyncio.run(loop.look_first(parts, {"n1": SchedulerState.UP}))
    assert (str(loop.lives.nodes["n1"].observed.state), loop.lives.nodes["n1"].surprises) == ("on", ())
    assert ledger.latest()["n1"].observed == "on"
    node.state = "off"
    asyncio.run(loop.look_first(parts, {}))
    assert str(loop.lives.nodes["n1"].observed.state) == "on"
    assert node.log == []
    ledger.close()
