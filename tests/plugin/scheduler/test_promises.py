"""What the port promises, of every scheduler behind it."""

import asyncio
import time
from pathlib import Path

import pytest
from memory_journal import MemoryJournal
from reading_promises import keeps_its_promises
from recorded_pbs import recordings
from scheduler_stages import PbsStage, SimulatedStage, SlurmStage, Stage, Wanted

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.door import Door
from offpeak.door.effect import Mode
from offpeak.errors import SchedulerError
from offpeak.model.orders import NodeChange, PowerState
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState, join_array_tasks
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import Ranking, in_use
from offpeak.power.door.scheduler_orders import SchedulerOrders
from offpeak.services.agent.restore import clear_comments

LONG = 420
RECORDINGS = dict(recordings(Path(__file__).parents[4] / "shared" / "data" / "captures"))
WHY = "offpeak: sleeps, as nobody needs it"


def jobs(stage: Stage) -> dict[str, Job]:
    return {job.job_id: job for job in stage.scheduler.view().jobs}


def node(stage: Stage, name: str) -> Node:
    return next(node for node in stage.scheduler.view().nodes if node.name == name)


def full(stage: Stage) -> str:
    """Return a job that has all nodes."""
    job = stage.submit(Wanted(nodes=3, name="filler"))
    wait_until(lambda: jobs(stage)[job].state is JobState.RUNNING, what="the nodes to be full")
    return job


def order(stage: Stage, names: list[str]) -> list[str]:
    """Return the jobs as they stand in the queue."""
    found = jobs(stage)
    return sorted(names, key=lambda name: -found[name].priority)


def test_scheduler_reports_its_name_and_version(stage: Stage) -> None:
    traits = stage.scheduler.traits()
    assert traits.name
    assert traits.version
    assert traits.power_saving
    assert traits.boot_s > 0


def test_a_running_job_and_its_nodes(stage: Stage) -> None:
    before = int(time.time())
    filler = full(stage)
    view = stage.scheduler.view()
    job = next(job for job in view.jobs if job.job_id == filler)
    assert before - 1 <= view.at_s <= time.time() + 1
    assert (job.nodes, job.limit_s, job.plain) == (3, 3600, True)
    assert before - 1 <= job.submit_s <= (job.start_s or 0) <= view.at_s + 1
    assert (job.name, job.user) == ("filler", stage.user)
    assert job.partitions
    assert {each.use for each in view.nodes} == {NodeUse.USED}
    assert {each.name for each in view.nodes} == {"node1", "node2", "node3"}
    assert all(set(job.partitions) <= set(each.partitions) for each in view.nodes)
    assert all(each.cpus_used == each.cpus > 0 for each in view.nodes)
    assert {each.memory_mib for each in view.nodes} == {stage.memory_mib}
    stage.cancel(filler)
    wait_until(lambda: node(stage, "node2").use is NodeUse.FREE, what="the nodes to be free")
    gone = jobs(stage).get(filler)
    assert gone is None or gone.state in {JobState.ENDED, JobState.ENDS}


def test_states_of_waiting_jobs(stage: Stage) -> None:
    filler = full(stage)
    waits, held = stage.submit(Wanted()), stage.submit(Wanted(held=True))
    hangs, array = stage.submit(Wanted(after=filler)), stage.submit(Wanted(array=True))
    found = jobs(stage)
    assert (found[waits].state, found[waits].plain, found[waits].start_s) == (JobState.PENDING, True, None)
    assert found[held].state is JobState.HELD
    assert not found[hangs].plain
    assert found[hangs].state in {JobState.PENDING, JobState.HELD}
    others = [job for name, job in found.items() if name not in {filler, waits, held, hangs}]
    tasks = [job for name, job in found.items() if name == array] or others
    assert tasks
    assert all(job.array_id and job.plain == job.is_array for job in tasks)
    joined = waiting_array(stage)
    assert (joined.tasks, joined.plain, joined.state) == (3, True, JobState.PENDING)
    assert not any(job.state in HOLDING for name, job in found.items() if name != filler)
    keeps_its_promises(stage.scheduler)
    # The same request is the same competition, another is another.
    wide = stage.submit(Wanted(nodes=2))
    found = jobs(stage)
    assert found[waits].request == found[held].request
    assert found[wide].nodes == 2


def test_a_walltime_that_is_missing(stage: Stage) -> None:
    full(stage)
    job = stage.submit(Wanted(limit_min=None))
    assert jobs(stage)[job].limit_s in (None, 86_400)


def test_jobs_share_a_node_or_have_it_whole(stage: Stage) -> None:
    shared = [stage.submit(Wanted(cpus=1)) for _ in range(2)]
    wait_until(lambda: {jobs(stage)[job].state for job in shared} == {JobState.RUNNING}, what="both to run")
    found, nodes = jobs(stage), stage.scheduler.view().nodes
    assert [(found[job].cpus, found[job].nodes, found[job].whole_nodes) for job in shared] == [(1, 1, False)] * 2
    assert sorted(each.cpus_used for each in nodes) == [0, 0, 2]
    (host,) = {found[job].hosts for job in shared}
    assert in_use(stage.scheduler, host) != ""
    whole = stage.submit(Wanted(nodes=2))
    wait_until(lambda: jobs(stage)[whole].state is JobState.RUNNING, what="a job to have the others")
    assert host not in jobs(stage)[whole].hosts.split(",")
    assert sorted(each.cpus - each.cpus_used for each in stage.scheduler.view().nodes)[:2] == [0, 0]


def test_a_user_without_rights_gets_the_reason_and_nothing_changes(stage: Stage) -> None:
    other = stage.of_nobody()
    if other is None:
        pytest.skip("the scheduler in memory lets everybody change everything")
    full(stage)
    job = stage.submit(Wanted())
    before = jobs(stage)[job]
    for refusals in (other.rank({job: before.priority + 5}), other.defer({job: int(time.time()) + 600})):
        assert list(refusals) == [job]
        assert refusals[job]
    assert other.change_nodes(["node2"], NodeChange.CLOSE, reason=WHY)["node2"]
    after = jobs(stage)[job]
    assert (after.priority, after.offset, after.begin_s) == (before.priority, before.offset, before.begin_s)
    assert not node(stage, "node2").closed


def test_no_change_without_the_server(stage: Stage) -> None:
    with stage.unreachable() as scheduler:
        if scheduler is None:
            pytest.skip("the scheduler in memory has no server")
        for ask in (scheduler.view, lambda: in_use(scheduler, "node1")):
            with pytest.raises(SchedulerError):
                ask()


def test_a_long_queue(stage: Stage) -> None:
    """More jobs than one command takes."""
    full(stage)
    many = stage.submit_many(LONG)
    found = jobs(stage)
    assert set(many) <= found.keys()
    top = max(found[job].priority for job in many) + 5
    value = top if stage.scheduler.traits().ranking is Ranking.VALUE else 5000
    assert stage.scheduler.rank(dict.fromkeys(many[LONG // 2 :], value)) == {}
    found = jobs(stage)
    assert {found[job].priority for job in many[LONG // 2 :]} == {value}
    assert all(found[job].priority < value for job in many[: LONG // 2])


def test_strange_names(stage: Stage) -> None:
    full(stage)
    names = ["na\u00efve", 'a"b', "it's", "x<y&z", "\u65e5\u672c"]
    numbers = [stage.submit(Wanted(name=name)) for name in names]
    found = jobs(stage)
    assert [found[number].name for number in numbers] == names


def test_jobs_change_places_and_get_them_back(stage: Stage) -> None:
    full(stage)
    one, two, three = (stage.submit(Wanted()) for _ in range(3))
    before = jobs(stage)
    by_value = stage.scheduler.traits().ranking is Ranking.VALUE
    if by_value:
        base = max(before[job].priority for job in (one, two, three))
        values, back = (
            {one: base, two: base + 2, three: base + 1},
            {job: before[job].priority for job in (one, two, three)},
        )
    else:
        values, back = {one: -1000, two: 2000, three: 1000}, dict.fromkeys((one, two, three), 0)
    assert stage.scheduler.rank({**values, "99999999": 5}) == {}
    assert order(stage, [one, two, three]) == [two, three, one]
    assert stage.scheduler.rank(back) == {}
    after = jobs(stage)
    assert [after[job].priority for job in (one, two, three)] == [before[job].priority for job in (one, two, three)]
    assert [after[job].offset for job in (one, two, three)] == [0, 0, 0]


def test_the_order_binds(stage: Stage) -> None:
    filler = full(stage)
    one, two = (stage.submit(Wanted(nodes=3)) for _ in range(2))
    top = jobs(stage)[one].priority + 5 if stage.scheduler.traits().ranking is Ranking.VALUE else 5000
    assert stage.scheduler.rank({two: top}) == {}
    stage.cancel(filler)
    wait_until(lambda: jobs(stage)[two].state is JobState.RUNNING, what="the second to start first")
    assert jobs(stage)[one].state is JobState.PENDING


def test_a_begin_time_holds_and_is_taken_away(stage: Stage) -> None:
    job = stage.submit(Wanted(held=False, nodes=3, name="filler"))
    wait_until(lambda: jobs(stage)[job].state is JobState.RUNNING, what="the nodes to be full")
    later = stage.submit(Wanted())
    at_s = int(time.time()) + 7200
    assert stage.scheduler.defer({later: at_s, "99999999": at_s}) == {}
    assert (jobs(stage)[later].begin_s, jobs(stage)[later].state) == (at_s, JobState.PENDING)
    stage.cancel(job)
    wait_until(lambda: node(stage, "node1").use is NodeUse.FREE, what="the nodes to be free")
    time.sleep(0.5)
    assert jobs(stage)[later].state is JobState.PENDING
    assert stage.scheduler.defer({later: 0}) == {}
    assert stage.scheduler.start_cycle([later]) == {}
    wait_until(lambda: jobs(stage)[later].state is JobState.RUNNING, what="the job to start")


def test_owners_are_notified(stage: Stage) -> None:
    full(stage)
    job = stage.submit(Wanted())
    assert stage.scheduler.notify({job: 'waits, until 06:00 "cheap"', "99999999": "nobody"}) == {}
    assert stage.scheduler.notify({job: ""}) == {}


def shown_to_owner(stage: Stage, job: str) -> str:
    """Return the comments that the scheduler shows beside the job."""
    if isinstance(stage, SlurmStage):
        shown = stage.cluster.run("scontrol", "show", "job", job)
        return "\n".join(line for line in shown.splitlines() if "Comment" in line)
    if isinstance(stage, PbsStage):
        return jobs(stage)[job].reason
    assert isinstance(stage, SimulatedStage)
    return next(
        each.attributes.get("offpeak", "") for each in stage.scheduler.cluster.jobs.values() if each.job_id == job
    )


def test_a_restore_takes_our_comments_away_and_no_others(stage: Stage) -> None:
    full(stage)
    ours, mixed, theirs = (stage.submit(Wanted()) for _ in range(3))
    assert stage.scheduler.notify(dict.fromkeys((ours, mixed), "waits until 06:00")) == {}
    if isinstance(stage, SlurmStage):
        stage.cluster.run("scontrol", "update", f"jobid={mixed}", "admincomment=theirs  [offpeak: waits until 06:00]")
        stage.cluster.run("scontrol", "update", f"jobid={theirs}", "admincomment=  theirs")
    elif isinstance(stage, PbsStage):
        stage.running.run("qalter", "-W", 'comment="theirs"', theirs)
    assert "waits until 06:00" in shown_to_owner(stage, ours)
    before = shown_to_owner(stage, theirs)
    orders = SchedulerOrders(Door(lambda _: Mode.ADVISE, journal=MemoryJournal(), clock=time.time), stage.scheduler)
    (answer,) = asyncio.run(clear_comments(stage.scheduler.view().jobs, orders, by="admin:ann"))
    assert (answer.done, answer.failed) == (True, {})
    assert not [job for job in (ours, mixed) if "waits until 06:00" in shown_to_owner(stage, job)]
    assert "offpeak:" not in shown_to_owner(stage, ours)
    assert shown_to_owner(stage, theirs) == before
    assert not isinstance(stage, SlurmStage) or "AdminComment=theirs" in shown_to_owner(stage, mixed)


def test_changes_of_unknown_jobs_are_ignored(stage: Stage) -> None:
    assert set(stage.scheduler.rank({"1; 2": 5})) <= {"1; 2"}
    assert stage.scheduler.rank({}) == {}
    assert stage.scheduler.defer({}) == {}


def test_a_node_is_closed_and_opened(stage: Stage) -> None:
    assert in_use(stage.scheduler, "node2") != ""
    refusals = stage.scheduler.change_nodes(["node2", "no-such"], NodeChange.CLOSE, reason=WHY)
    assert list(refusals) == ["no-such"]
    closed = node(stage, "node2")
    assert (closed.closed, closed.closed_by_us, closed.failed, closed.use) == (True, True, False, NodeUse.FREE)
    assert closed.reason.startswith("offpeak")
    assert in_use(stage.scheduler, "node2") == ""
    assert stage.scheduler.change_nodes(["node2"], NodeChange.CLOSE, reason=WHY) == {}
    wide = stage.submit(Wanted(nodes=3))
    time.sleep(0.5)
    assert jobs(stage)[wide].state is JobState.PENDING
    assert stage.scheduler.change_nodes(["node2"], NodeChange.OPEN, reason="") == {}
    assert not node(stage, "node2").closed
    assert stage.scheduler.start_cycle([wide]) == {}
    wait_until(lambda: jobs(stage)[wide].state is JobState.RUNNING, what="the node to be used again")
    assert wide in in_use(stage.scheduler, "node2")
    # With a job on it, it is closed and not free.
    assert stage.scheduler.change_nodes(["node2"], NodeChange.CLOSE, reason=WHY) == {}
    assert node(stage, "node2").use is NodeUse.USED
    assert in_use(stage.scheduler, "node2") != ""
    assert stage.scheduler.change_nodes(["node2"], NodeChange.OPEN, reason="") == {}


def test_node_closed_by_an_admin_stays_closed(stage: Stage) -> None:
    stage.close_by_hand("node3")
    try:
        found = node(stage, "node3")
        assert (found.closed, found.closed_by_us, found.reason) == (True, False, "broken fan")
        for change in (NodeChange.CLOSE, NodeChange.OPEN):
            refusals = stage.scheduler.change_nodes(["node3"], change, reason=WHY)
            assert refusals["node3"].endswith("broken fan")
        assert node(stage, "node3").reason == "broken fan"
    finally:
        stage.open_by_hand("node3")


def test_a_node_counts_as_powered_down_and_comes_up_again(sleepy: Stage) -> None:
    change = sleepy.scheduler.change_nodes
    assert change(["node1"], NodeChange.CLOSE, reason=WHY) == {}
    assert change(["node1"], NodeChange.POWER_DOWN, reason="offpeak: it is off") == {}
    assert change(["node1"], NodeChange.POWER_DOWN, reason="offpeak: once more") == {}
    wait_until(lambda: node(sleepy, "node1").power is PowerState.OFF, what="the node to count as off")
    assert change(["node1"], NodeChange.OPEN, reason="") == {}
    asleep = node(sleepy, "node1")
    assert (asleep.closed, asleep.failed, asleep.use) == (False, False, NodeUse.FREE)
    # A node that sleeps is withdrawn from jobs, and sleeps as before when it is open again.
    assert change(["node1"], NodeChange.WITHDRAW, reason=WHY) == {}
    withdrawn = node(sleepy, "node1")
    assert (withdrawn.power, withdrawn.closed_by_us, withdrawn.failed) == (PowerState.OFF, True, False)
    needs_it = sleepy.submit(Wanted(nodes=3))
    time.sleep(0.5)
    assert jobs(sleepy)[needs_it].state is JobState.PENDING
    assert "node1" not in jobs(sleepy)[needs_it].hosts
    assert node(sleepy, "node1").power is PowerState.OFF
    sleepy.cancel(needs_it)
    assert change(["node1"], NodeChange.OPEN, reason="") == {}
    assert (node(sleepy, "node1").power, node(sleepy, "node1").closed) == (PowerState.OFF, False)
    assert change(["node1"], NodeChange.POWER_UP, reason="offpeak: it must wake") == {}
    # One that was never really off may have registered meanwhile.
    assert node(sleepy, "node1").power in (PowerState.ON_REQUESTED, PowerState.POWERING_ON, PowerState.ON)
    assert change(["node1"], NodeChange.POWER_UP, reason="offpeak: once more") == {}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_pbs_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    keeps_its_promises(RECORDINGS[name].scheduler(tmp_path))


def waiting_array(stage: Stage) -> Job:
    joined = join_array_tasks(jobs(stage).values())
    (only,) = (job for job in joined if job.is_array and job.state is JobState.PENDING)
    return only


def test_an_array_is_ranked_and_deferred_as_one_record(stage: Stage) -> None:
    full(stage)
    stage.submit(Wanted(array=True))

    before, by_value = waiting_array(stage), stage.scheduler.traits().ranking is Ranking.VALUE
    value = before.priority - 5 if by_value else before.offset + 7
    assert stage.scheduler.rank({before.job_id: value}) == {}
    after = waiting_array(stage)
    assert (after.priority if by_value else after.offset) == value
    assert after.tasks == 3
    at_s = int(time.time()) + 86_400
    assert stage.scheduler.defer({before.job_id: at_s}) == {}
    assert waiting_array(stage).begin_s == at_s
    assert stage.scheduler.defer({before.job_id: 0}) == {}
    assert (waiting_array(stage).begin_s or 0) < at_s


def test_tasks_that_differ_stay_single(stage: Stage) -> None:
    full(stage)
    stage.submit(Wanted(array=True))
    array = waiting_array(stage)
    # The tasks as a scheduler shows them that lists them one by one.
    tasks = [array._replace(job_id=f"{array.job_id}{task}", plain=False, tasks=1) for task in range(3)]
    one, *others = tasks
    assert [job.job_id for job in join_array_tasks(tasks)] == [array.array_id]
    for changed in ({"priority": array.priority + 1}, {"begin_s": 2**33}, {"comment": "offpeak:now"}):
        assert join_array_tasks([one._replace(**changed), *others]) == (one._replace(**changed), *others)
    held = one._replace(state=JobState.HELD)
    joined = {job.job_id: job for job in join_array_tasks([held, *others])}
    assert joined[array.array_id].tasks == 2
    assert joined[one.job_id].array_id == ""
