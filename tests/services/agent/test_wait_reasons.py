"""Each job that waits has a cause, a start or what it waits for, and a remedy: on every scheduler, in any queue."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_site import HOUR_S, NOW_S, ZONE, a_job, plain_cluster, prices

from offpeak.ledger.rows import DecisionRecord, JobMark
from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk
from offpeak.plugin.pbs.commands import CommandResult
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.scheduler import PbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.queue_hook.facts import QueueFacts
from offpeak.plugin.queue_hook.positions import BEGIN, BY_CAP
from offpeak.plugin.queue_hook.start_times import NO_LIMIT, plan_begin_times
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking, SchedulerTraits, SchedulerView
from offpeak.plugin.slurm.jobs import SQUEUE_COLUMNS, jobs_of_text, separator
from offpeak.power.expected_waits import simulate_waits
from offpeak.power.live.decide import PoolOffer
from offpeak.prices.peak import Peak
from offpeak.services.agent.queue_loop import queue_facts, queue_rules
from offpeak.services.agent.reports import job_statuses
from offpeak.services.agent.status import JobStatus
from offpeak.services.agent.wait_reasons import WITHOUT_NODES, Cause, WaitExplainer, WaitFacts, WaitReason
from offpeak.settings.agent import PbsSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.pbs_standin.commands import PbsCall, answer
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE, new_pbs
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

RULES = queue_rules(Settings(), ZONE)
CPUS = 8
Site = tuple[SchedulerView, SchedulerTraits]


def spread(wait_s: int) -> tuple[int, int]:
    return wait_s // 2, 2 * wait_s


def explained(site: Site) -> list[tuple[Job, JobStatus]]:
    """Return the jobs that wait as `offpeak why` gets them."""
    view, traits = site
    observed: Any = SimpleNamespace(view=view, traits=traits, prices=None)
    facts = queue_facts(observed, draws={}, run_s={})
    waits = simulate_waits(view, {}, shared=traits.shared_nodes, partitions=traits.partitions, limits=traits.limits)
    known = WaitFacts(view.nodes, waits.starts_s, is_simulated=True, spread=spread, scheduler=traits.name)
    ids = [job.job_id for job in facts.jobs]
    by_id = {status.job_id: status for status in job_statuses(facts, RULES, {}, known, detailed=ids)}
    return [(job, by_id[job.job_id]) for job in facts.jobs if job.state in WITHOUT_NODES]


@st.composite
def clusters(draw: st.DrawFn, queue: str) -> SimulatedCluster:
    """Return a cluster with running, waiting, held, deferred, dependent and impossible jobs, tasks of arrays, and nodes
    that sleep, boot, are drained or do not answer.
    """
    nodes = {}
    for number in range(1, draw(st.integers(2, 5)) + 1):
        node = SimNode(f"n{number}", CPUS)
        kind = draw(st.sampled_from(["up"] * 6 + ["asleep", "drained", "down"]))
        if kind == "asleep":
            node.power, node.power_s = PowerState.OFF, NOW_S - 60
        elif kind == "drained":
            node.shut, node.note = {"offline"}, "broken fan"
        elif kind == "down":
            node.alive = False
        nodes[node.name] = node
    cluster = SimulatedCluster(nodes, queues=(queue,))
    for number in range(1, draw(st.integers(3, 12)) + 1):
        cluster.submit(
            SimJob(
                number,
                "job",
                draw(st.sampled_from(["ann", "bob"])),
                queue,
                (Chunk(draw(st.sampled_from([1, 1, 2, 2, 3, 6])), draw(st.sampled_from([1, 4, 8, 8, 8, 9]))),),
                run_s=draw(st.sampled_from([60.0, 3000.0, 90_000.0])),
                submit_s=NOW_S - draw(st.integers(0, 7200)),
                limit_s=draw(st.sampled_from([None, HOUR_S, 48 * HOUR_S])),
                priority=draw(st.integers(-3, 3)),
                begin_s=draw(st.sampled_from([0] * 7 + [NOW_S + 1800])),
                holds=set(draw(st.sampled_from([""] * 9 + ["u", "o", "s"]))),
                after=draw(st.sampled_from([()] * 7 + [(1,)])) if number > 1 else (),
                index=draw(st.sampled_from([None, None, None, 1])),
                task_limit=draw(st.sampled_from([0, 1])),
                comment=draw(
                    st.sampled_from(["", "", "offpeak:now", "offpeak:deadline=2026-11-22T01:00", "offpeak:x"])
                ),
            )
        )
    return cluster


def site_of_pbs(kind: str) -> Callable[[SimulatedCluster], Site]:
    def site(cluster: SimulatedCluster) -> Site:
        pbs = new_pbs(kind, cluster.nodes)
        name, cores = ("nodes", "ppn") if kind == TORQUE else ("select", "ncpus")
        for job in cluster.jobs.values():
            (chunk,) = job.chunks
            request = f"{chunk.copies}:{cores}={chunk.cores}"
            job.wants = {name: request} | ({"walltime": f"{job.limit_s // HOUR_S}:00:00"} if job.limit_s else {})
            job.attributes = {
                "request": request,
                "account": "",
                "depend": "afterany:1.head" if job.after else "",
                "variables": f"OFFPEAK={job.comment.partition(':')[2]}" if job.comment else "",
            }
            job.comment = ""
            pbs.cluster.submit(job)
        pbs.attributes["query_other_jobs"] = "True"
        make: type[PbsScheduler] = TorqueScheduler if kind == TORQUE else OpenPbsScheduler
        scheduler = make(PbsSettings(torque_order="priority"), clock=lambda: float(NOW_S))

        def run(program: str, arguments: tuple[str, ...], _run: object) -> CommandResult:
            reply = answer(pbs, PbsCall(program, arguments[1:], "root", "", float(NOW_S)))
            return CommandResult(reply.out, tuple(reply.err.splitlines()), reply.code)

        scheduler.commands._run = run  # type: ignore[method-assign]
        traits = SchedulerTraits(kind, "", scheduler.dialect.ranking, True, 300, True)
        return scheduler.view(), traits

    return site


def simulated_site(cluster: SimulatedCluster) -> Site:
    scheduler = SimulatedScheduler(cluster, clock=lambda: float(NOW_S))
    return scheduler.view(), scheduler.traits()


END = "\x1eabc"
REASONS = (
    *("Priority",) * 20,
    *("Resources", "None", "Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin"),
    *("BeginTime", "QOSMaxCpuPerUserLimit", "AssocGrpCpuLimit", "Licenses", "PartitionDown", "PartitionTimeLimit"),
    *(
        "Reservation",
        "ReqNodeNotAvail, UnavailableNodes:n1",
        "JobArrayTaskLimit",
        "Cleaning",
        "BadConstraints",
        "Prolog",
    ),
)


@st.composite
def slurm_sites(draw: st.DrawFn) -> Site:
    """Return what squeue prints of a random queue, and random nodes."""
    text = f"JOBID{separator(END)}STATE{END}\n"
    for number in range(1, draw(st.integers(1, 8)) + 1):
        array = draw(st.sampled_from(["", "", "_[1-9%2]"]))
        fields = {
            "JobID": str(number),
            "JobArrayID": f"{number}{array}",
            "HetJobID": draw(st.sampled_from(["N/A", "N/A", "7"])),
            "State": draw(st.sampled_from(["PENDING"] * 6 + ["CONFIGURING", "REQUEUE_HOLD", "RUNNING"])),
            "Reason": draw(st.sampled_from(REASONS)),
            "UserName": "ann",
            "Partition": draw(st.sampled_from(["batch"] * 9 + ["long", "gone"])),
            "PriorityLong": str(draw(st.sampled_from([0, 6, 7, 7, 8, 4_294_901_758]))),
            "Nice": "0",
            "NumNodes": draw(st.sampled_from(["1", "1", "2-4", "9"])),
            "NumCPUs": draw(st.sampled_from(["1", "1", "2", "16", "99"])),
            "OverSubscribe": draw(st.sampled_from(["OK", "NO"])),
            "TimeLimit": draw(st.sampled_from(["UNLIMITED", "1:00:00"])),
            "SubmitTime": str(NOW_S - 60),
            "EligibleTime": draw(st.sampled_from(["N/A"] * 5 + [str(NOW_S - 60), str(NOW_S + 900)])),
            "StartTime": draw(st.sampled_from(["N/A", str(NOW_S - 900), str(NOW_S + 7200)])),
            "NodeList": draw(st.sampled_from(["", "n1"])),
            "Dependency": draw(st.sampled_from(["(null)"] * 7 + ["afterok:5(unfulfilled)"])),
            "Reservation": draw(st.sampled_from(["(null)"] * 5 + ["maint"])),
            "Comment": draw(st.sampled_from(["(null)", "offpeak:deadline=2026-11-22T01:00", "offpeak:delay=2h"])),
        }
        text += separator(END).join(fields.get(column, "") for column in SQUEUE_COLUMNS) + f"{END}\n"
    nodes = tuple(
        a_node(
            f"n{number}",
            draw(st.sampled_from([PowerState.ON] * 4 + [PowerState.OFF, PowerState.POWERING_ON])),
            draw(st.sampled_from([NodeUse.FREE] + [NodeUse.USED] * 4)),
            closed=draw(st.sampled_from([False] * 6 + [True])),
        )
        for number in range(draw(st.integers(0, 6)))
    )
    traits = SchedulerTraits("slurm", "24.11", Ranking.OFFSET, True, 300, shared_nodes=True)
    return SchedulerView(NOW_S, jobs_of_text(text.encode(), END), nodes, ()), traits


def a_node(name: str, power: PowerState, use: NodeUse = NodeUse.FREE, *, closed: bool = False) -> Node:
    flags = (closed, False, True, False, False)
    return Node(name, "", use, power, *flags, "", "", None, ("batch", "long"), (), CPUS, 0, 0, None, None)


SITES = {
    "slurm": slurm_sites(),
    "openpbs": clusters("workq").map(site_of_pbs(OPENPBS)),
    "torque": clusters("batch").map(site_of_pbs(TORQUE)),
    "simulated": clusters("batch").map(simulated_site),
}


@pytest.mark.parametrize("scheduler", SITES)
def test_each_waiting_job_has_a_cause_a_start_and_a_remedy(scheduler: str) -> None:
    seen: set[str] = set()

    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)
    @given(SITES[scheduler])
    def check(site: Site) -> None:
        for job, status in explained(site):
            seen.add(status.cause)
            assert status.cause in set(Cause)
            assert status.why, job
            assert status.remedy, job
            assert status.saves, job
            assert bool(status.start_condition) or status.would_start_unix_s is not None, job
            if status.would_start_unix_s is not None:
                assert status.starts_from_unix_s is not None
                assert status.starts_by_unix_s is not None
                assert NOW_S <= status.starts_from_unix_s <= status.would_start_unix_s <= status.starts_by_unix_s
            elif status.cause in ("priority", "nodes", "asleep") and job.is_waiting(NOW_S):
                # Only a job that the nodes in order cannot hold has no time.
                assert "usable" in status.why or "no node" in status.why, job

    check()
    # The random queues are not all of one kind.
    assert {"nodes", "dependency", "hold"} <= seen


NODES = tuple(a_node(f"n{number}", PowerState.ON, NodeUse.USED) for number in range(4))
BUSY = WaitFacts(NODES, {"1": NOW_S + HOUR_S}, is_simulated=True, spread=spread, scheduler="slurm")


def reason(job: Job, known: WaitFacts = BUSY, ahead: int = 0, **fields: Any) -> WaitReason:
    view = SchedulerView(NOW_S, (job,), known.nodes, ())
    observed: Any = SimpleNamespace(view=view, traits=SimpleNamespace(**TRAITS), prices=None)
    facts = replace(queue_facts(observed, draws={}, run_s={}), **fields)
    return WaitExplainer(facts, RULES, known).explain_wait(job, None, ahead)


TRAITS: Mapping[str, Any] = {"partitions": (), "limits": None, "ranking": Ranking.OFFSET}


@pytest.mark.quick
def test_the_cause_is_the_one_that_keeps_the_job_back() -> None:
    begin_s = NOW_S + HOUR_S
    job = a_job(1, nodes=2, cpus=16)
    ours = (JobMark("1", job.submit_s, BEGIN, 0, begin_s, NOW_S),)
    by_cap = (*ours, JobMark("1", job.submit_s, BY_CAP, 0, begin_s, NOW_S))
    later = job._replace(begin_s=begin_s)
    one_up = (a_node("n0", PowerState.ON), *(a_node(f"n{at}", PowerState.OFF) for at in (1, 2, 3)))
    drained = tuple(node._replace(closed=True, use=NodeUse.FREE) for node in NODES)
    offer = PoolOffer("batch", frozenset({"batch"}), "sla", offered=1, usable=4, why="SLA")
    found = {
        "nodes": reason(job),
        "priority": reason(job, ahead=2),
        "limit": reason(job._replace(reason="QOSMaxCpuPerUserLimit")),
        "dependency": reason(job._replace(reason="Dependency")),
        "hold": reason(job._replace(state=JobState.HELD, reason="JobHeldUser")),
        "price": reason(later, marks=ours),
        "cap": reason(later, marks=by_cap),
        "begin time": reason(later),
        "asleep": reason(job, replace(BUSY, nodes=one_up)),
        "request": reason(a_job(1, nodes=9, cpus=72)),
        "reservation": reason(job._replace(reservation="maint")),
    }
    assert {cause: str(each.cause) for cause, each in found.items()} == {cause: cause for cause in found}
    assert found["nodes"].sentence == "it needs 2 nodes, and 0 of the 4 that fit it are free"
    assert found["asleep"].sentence == "1 node of the 2 that it needs must boot first"
    assert found["priority"].sentence == "2 jobs with a higher priority wait for the same nodes"
    assert (found["nodes"].from_s, found["nodes"].by_s) == (NOW_S + HOUR_S // 2, NOW_S + 2 * HOUR_S)
    assert reason(job, replace(BUSY, nodes=drained)).sentence == (
        "it needs 2 nodes, and 0 of the 4 that fit it are usable"
    )
    assert reason(job, replace(BUSY, offers=(offer,))).cause is Cause.CAP
    assert reason(job, replace(BUSY, nodes=one_up, offers=(offer,))).cause is Cause.CAP, "none of them is offered"
    planned = replace(offer, by_queue=True)
    assert reason(job, replace(BUSY, offers=(planned,))).sentence == (
        "nodes in use become free for it before sleeping ones would have booted"
    )
    assert reason(job, replace(BUSY, offers=(planned,)), ahead=2).cause is Cause.PRIORITY
    wider = replace(offer, offered=2)
    assert reason(job, replace(BUSY, nodes=one_up, offers=(wider,))).cause is Cause.ASLEEP
    assert reason(job, replace(BUSY, starts_s={}, is_simulated=False)).start_condition.endswith("ask again in a minute")


def test_a_job_that_waits_for_boots_names_the_nodes_and_when_they_are_up() -> None:
    on, rises, sleeps = a_node("n0", PowerState.ON), PowerState.POWERING_ON, a_node("n3", PowerState.OFF)
    nodes = (on, a_node("n1", rises), a_node("n2", rises), sleeps)
    boots = replace(BUSY, nodes=nodes, boot_ends_s={"n1": NOW_S + 60, "n2": NOW_S + 240})
    job = a_job(1, nodes=3, cpus=24)
    until = RULES.clock(NOW_S + 240, NOW_S)
    assert reason(job, boots).sentence == (
        f"2 nodes of the 3 that it needs must boot first: n[1-2] boot until about {until}"
    )
    offer = PoolOffer("batch", frozenset({"batch"}), "planned", offered=1, usable=4, why="queue", by_queue=True)
    assert reason(job, replace(boots, offers=(offer,))).sentence == (
        f"it waits for nodes that come up instead of waking n3: n[1-2] boot until about {until}"
    )
    starts = job._replace(state=JobState.STARTS, hosts="n[0-1]")
    assert reason(starts, boots).sentence == (
        f"it starts when its nodes have booted: n1 boots until about {RULES.clock(NOW_S + 60, NOW_S)}"
    )
    late = replace(boots, boot_ends_s={"n1": NOW_S - 60})
    assert reason(starts, late).sentence == "it starts when its nodes have booted: n1 boots, longer than usual"


def test_a_job_that_names_its_node_waits_for_that_node() -> None:
    nodes = (NODES[0], *(a_node(f"n{number}", PowerState.ON) for number in (1, 2, 3)))
    job = a_job(1, nodes=1, cpus=8)
    assert job.request is not None
    requests = {host: job.request._replace(chunks=(Chunk(1, 8, host=host),)) for host in ("n0", "n1")}
    found = {
        host: reason(job._replace(request=request), replace(BUSY, nodes=nodes)).sentence
        for host, request in requests.items()
    }
    assert found["n0"] == "it needs 1 node, and 0 of the 1 that fit it are free"
    assert found["n1"].startswith("nodes are free for it")


@pytest.mark.quick
def test_a_deadline_without_a_time_limit_says_that_the_job_is_never_delayed() -> None:
    job = a_job(1, comment="offpeak:deadline=2026-11-25T08:00", limit_s=None)
    facts = QueueFacts(NOW_S, (job,), Ranking.OFFSET, Peak.ON_PEAK, cluster=plain_cluster((job,)))
    (status,) = job_statuses(facts, RULES, {}, detailed={"1"})
    assert NO_LIMIT in status.why
    assert status.saves == NO_LIMIT
    # Its owner is notified in the job's comment.
    assert plan_begin_times([job], {}, facts=facts, rules=RULES).tell == {"1": NO_LIMIT}
    assert plan_begin_times([job._replace(limit_s=60)], {}, facts=facts, rules=RULES).tell == {}


@pytest.mark.quick
def test_what_a_delay_would_save_is_the_cheapest_start_within_half_a_day() -> None:
    job = a_job(1, cpus=8)
    facts = QueueFacts(
        NOW_S,
        (job,),
        Ranking.OFFSET,
        Peak.ON_PEAK,
        prices=prices(*[100.0] * 22, *[40.0] * 20, 10.0, *[200.0] * 20),
        node_power_w={"1": 500.0},
        expected_run_s={"1": HOUR_S},
        cluster=plain_cluster((job,)),
    )
    (status,) = job_statuses(facts, RULES, {}, replace(BUSY, starts_s={}), detailed={"1"})
    # 500 W for an hour, at 40 instead of 100 EUR/MWh from 22:00 on; 10 EUR/MWh are too late.
    assert status.saves.startswith("0.03 EUR if it may wait until 22:00: `scontrol update jobid=1 comment=")
    now = job._replace(comment="offpeak:now")
    (out,) = job_statuses(replace(facts, jobs=(now,)), RULES, {}, BUSY, detailed={"1"})
    assert out.saves == "nothing: it opted out"
    (other,) = job_statuses(facts, RULES, {}, BUSY)
    assert other.saves == ""


def test_an_array_of_which_tasks_have_started_expects_the_saving_of_the_others() -> None:
    job = a_job(7, array_id="7", tasks=3, begin_s=NOW_S + HOUR_S, comment="offpeak:delay=12h")
    facts = QueueFacts(NOW_S, (job,), Ranking.OFFSET, Peak.ON_PEAK, prices=prices(100.0), cluster=plain_cluster((job,)))
    decided = DecisionRecord(NOW_S - HOUR_S, "job 7", "delayed", "", (("expected_saving", 1.6), ("tasks", 8.0)))
    (status,) = job_statuses(facts, RULES, {"job 7": decided}, BUSY, detailed={"7"})
    assert status.expected_saving == pytest.approx(0.6)
    assert status.saves == "0.60 EUR expected, compared with a start now"
