"""Jobs of a running slurmctld: how they are read, and put in another order."""

import re
import time
from pathlib import Path

import pytest
from slurm_queue import empty, full, submit

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.orders import NodeChange
from offpeak.model.request import Chunk, Request
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking, Scheduler, in_use
from offpeak.plugin.slurm.changes import HELD_COMPLAINT
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings


def jobs_of(slurm: Scheduler) -> dict[str, Job]:
    return {job.job_id: job for job in slurm.view().jobs}


def test_priorities_bind_the_order(basic: SlurmCluster, slurm: SlurmScheduler, tmp_path: Path) -> None:
    assert slurm.traits().ranking is Ranking.VALUE
    order = tmp_path / "order"
    with full(basic) as filler:
        write = f"--wrap=echo $SLURM_JOB_ID >> {order}"
        jobs = [submit(basic, "--exclusive", "--nodes=3", write) for _ in range(4)]
        present = jobs_of(slurm)
        wanted = [jobs[2], jobs[0], jobs[3], jobs[1]]
        values = sorted((present[job].priority for job in jobs), reverse=True)
        assert slurm.rank(dict(zip(wanted, values, strict=True))) == {}
        basic.run("scancel", filler)
        wait_until(lambda: order.is_file() and len(order.read_text().split()) == 4, what="the jobs to end")
        assert order.read_text().split() == wanted


def test_the_fields_of_each_job(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    now_s = int(time.time())
    with full(basic) as filler:
        wide = submit(
            basic,
            "--exclusive",
            "--nodes=2",
            "--time=90",
            "--partition=batch,again",
            "--comment=a|b\x1fc\n9|x",
            "--account=a\x1fb",
        )
        held = submit(basic, "--hold", "--job-name=two\nlines | \x1f \udcff", "--nodelist=node2")
        later = submit(basic, f"--begin=now+{3600}", "--nice=100")
        hangs = submit(basic, f"--dependency=afterok:{filler}", "--cpus-per-task=2", "--mem-per-cpu=100")
        ended = submit(basic, "--hold")
        basic.run("scancel", ended)
        jobs = jobs_of(slurm)
        assert jobs[filler].state is JobState.RUNNING
        assert (jobs[filler].hosts, jobs[filler].cpus, jobs[filler].nodes) == ("node[1-3]", 12, 3)
        assert now_s - 1 <= (jobs[filler].start_s or 0) <= now_s + 60
        assert jobs[wide].state is JobState.PENDING
        assert jobs[wide].partitions == ("batch", "again")
        assert (jobs[wide].nodes, jobs[wide].limit_s, jobs[wide].whole_nodes) == (2, 5400, True)
        assert (jobs[wide].comment, jobs[wide].plain) == ("a|b\x1fc\n9|x", True)
        assert jobs[wide].account == "a\x1fb"
        assert (jobs[held].state, jobs[held].priority, jobs[held].reason) == (JobState.HELD, 0, "JobHeldUser")
        assert jobs[held].name == "two\nlines | \x1f \ufffd"
        assert 3590 <= (jobs[later].begin_s or 0) - now_s <= 3700
        assert (jobs[later].offset, jobs[later].limit_s) == (-100, 86_400)
        assert not jobs[hangs].plain
        assert (jobs[ended].state, jobs[ended].native_state) == (JobState.ENDED, "CANCELLED")
        assert (jobs[ended].end_s or 0) >= now_s - 1
        assert len({jobs[job].request for job in (wide, held, later, hangs)}) == 4
        requests = [jobs[job].request for job in (later, filler)]
        assert [request.partitions for request in requests if request] == [("batch",)] * 2


def test_an_array_is_one_job_but_for_tasks_of_their_own(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    with full(basic):
        array = submit(basic, "--array=1-1000%3")
        het = submit(basic, "--nodes=1", ":", "--nodes=2")
        basic.run("scontrol", "update", f"jobid={array}_7", "priority=77")
        jobs = [job for job in slurm.view().jobs if job.state is JobState.PENDING]
        split = next(job for job in jobs if job.priority == 77)
        assert {job.job_id for job in jobs} == {array, split.job_id, het, str(int(het) + 1)}
        assert [job.job_id for job in jobs if job.plain] == [array]
        # The array's number changes all tasks: the change of a single task comes after it.
        assert slurm.rank({split.job_id: 500, array: 400}) == {}
        ranked = jobs_of(slurm)
        assert (ranked[array].priority, ranked[split.job_id].priority) == (400, 500)
        assert slurm.rank({array: 300}) == {}
        assert jobs_of(slurm)[split.job_id].priority == 300


def test_arrays_are_read_and_changed_as_one_record(basic: SlurmCluster, slurm: SlurmScheduler, tmp_path: Path) -> None:
    at_s = int(time.time()) + 86_400
    until_told = f"--wrap=until test -e {tmp_path}/$SLURM_ARRAY_TASK_ID; do sleep 0.1; done"
    array = submit(basic, "--array=1-9%2", "--exclusive", until_told)
    try:
        wait_until(lambda: jobs_of(slurm)[array].tasks == 7, what="two tasks to start")
        jobs = {job.job_id: job for job in jobs_of(slurm).values() if job.array_id == array}
        assert (jobs[array].tasks, jobs[array].task_limit, jobs[array].array_id) == (7, 2, array)
        started = [job for job in jobs.values() if job.job_id != array]
        assert {(job.state, job.array_id, job.tasks) for job in started} == {(JobState.RUNNING, array, 1)}
        (tmp_path / "1").touch()
        wait_until(lambda: jobs_of(slurm)[array].tasks == 6, what="the next task to start")
        # Some tasks run, one has ended: scontrol reports these beside those that it changes.
        assert slurm.rank({array: 5000}) == {}
        assert slurm.defer({array: at_s}) == {}
        assert slurm.notify({array: "waits"}) == {}
        jobs = jobs_of(slurm)
        assert (jobs[array].priority, jobs[array].begin_s, jobs[array].tasks) == (5000, at_s, 6)
        assert slurm.defer({array: 0}) == {}
        (tmp_path / "2").touch()
        wait_until(lambda: jobs_of(slurm)[array].tasks == 5, what="another task to start")
        assert {job.priority for job in jobs_of(slurm).values() if job.state is JobState.RUNNING} == {5000}
    finally:
        empty(basic)


def test_requests_of_waiting_jobs(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    with full(basic):
        by_cpu = submit(basic, "--ntasks=4", "--mem-per-cpu=100")
        by_node = submit(basic, "--ntasks=4", "--nodes=2", "--mem=200")
        bound = submit(basic, "--nodelist=node2", "--exclusive")
        found = {job: jobs_of(slurm)[job].request for job in (by_cpu, by_node, bound)}
    known = Request(("batch",), (Chunk(4, 1, 100),), apart=False)
    assert found[by_cpu] == known
    assert found[by_node] == Request(("batch",), (Chunk(2, 2, 200),))
    assert found[bound] == Request(("batch",), (Chunk(1),), whole_nodes=True, hosts=frozenset({"node2"}))


def test_job_that_cannot_be_ranked_hides_no_other_job(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    with full(basic) as filler:
        held, free = submit(basic, "--hold"), submit(basic)
        gone = submit(basic, "--hold")
        basic.run("scancel", gone)
        values = {"99999999": 5, gone: 5, held: 5, "1; 2": 5, filler: 5, free: 4_000_000_000, free + "1": 0}
        assert slurm.rank(values) == {
            held: HELD_COMPLAINT,
            "1; 2": "is not a job number",
            free + "1": "priority 0 is none",
        }
        assert jobs_of(slurm)[free].priority == 4_000_000_000
        assert jobs_of(slurm)[held].state is JobState.HELD


def test_a_thousand_jobs_are_ranked(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    with full(basic) as filler:
        array = submit(basic, "--array=1-1000")
        # Each task becomes a job of its own, which is quicker than to submit so many.
        split = "".join(f"update jobid={array}_{task} priority=7\n" for task in range(1, 1001))
        basic.run("sh", "-c", f"printf '{split}' | scontrol")
        jobs = set(jobs_of(slurm)) - {filler}
        values = {job: 3_000_000_000 + int(job) * 7919 % 1009 for job in jobs if int(job) >= int(array)}
        assert len(values) == 1000
        assert slurm.rank(values) == {}
        present = jobs_of(slurm)
        assert {job: present[job].priority for job in values} == values


def test_a_begin_time_is_set_and_taken_away(basic: SlurmCluster, slurm: SlurmScheduler, tmp_path: Path) -> None:
    began = tmp_path / "began"
    at_s = int(time.time()) + 86_400
    with full(basic) as filler:
        job, other = submit(basic, f"--wrap=touch {began}"), submit(basic)
        assert slurm.defer({job: at_s, other: at_s + 1, "99999999": at_s}) == {}
        assert slurm.defer({filler: at_s}) == {filler: "Job is no longer pending execution"}
        assert [jobs_of(slurm)[each].begin_s for each in (job, other)] == [at_s, at_s + 1]
        assert jobs_of(slurm)[job].state is JobState.PENDING
        basic.run("scancel", filler, other)
        wait_until(lambda: jobs_of(slurm)[job].reason == "BeginTime", what="the job to wait for its time")
        assert not began.exists()
        assert slurm.defer({job: 0}) == {}
        wait_until(began.exists, what="the job to start")


def test_offsets_are_added_and_taken_away(multifactor: SlurmCluster, slurm: SlurmScheduler) -> None:
    assert slurm.traits().ranking is Ranking.OFFSET
    with full(multifactor):
        jobs = [submit(multifactor) for _ in range(3)]
        held = submit(multifactor, "--hold")
        before = jobs_of(slurm)
        values = {jobs[0]: 100, jobs[1]: 300, jobs[2]: -200, held: 400, "99999999": 7}
        assert slurm.rank(values) == {held: HELD_COMPLAINT}
        present = jobs_of(slurm)
        assert [present[job].offset for job in jobs] == [100, 300, -200]
        assert sorted(jobs, key=lambda job: -present[job].priority) == [jobs[1], jobs[0], jobs[2]]
        assert (present[held].state, present[held].offset) == (JobState.HELD, 0)
        assert slurm.rank(dict.fromkeys(jobs, 0)) == {}
        assert [jobs_of(slurm)[job].offset for job in jobs] == [0, 0, 0]
        assert jobs_of(slurm)[jobs[0]].priority == before[jobs[0]].priority


def test_a_priority_that_an_admin_set_is_known_under_multifactor(
    multifactor: SlurmCluster, slurm: SlurmScheduler
) -> None:
    assert slurm.traits().ranking is Ranking.OFFSET
    with full(multifactor):
        ours, admins, array = (submit(multifactor, *options) for options in ((), (), ("--array=1-3",)))
        submit(multifactor, "--partition=batch,again")
        multifactor.run("scontrol", "update", f"jobid={admins}", "priority=55555")
        multifactor.run("scontrol", "update", f"jobid={array}", "priority=44444")
        assert slurm.rank({ours: 300}) == {}
        is_set = {job for job, read in jobs_of(slurm).items() if read.priority_is_set}
        assert is_set == {admins, array}
        # The scheduler computes the priority of a released job again.
        multifactor.run("scontrol", "hold", admins)
        multifactor.run("scontrol", "release", admins)
        assert not jobs_of(slurm)[admins].priority_is_set


def test_jobs_are_ranked_by_the_last_known_traits_though_slurm_has_changed_meanwhile(
    basic: SlurmCluster, multifactor: SlurmCluster, slurm: SlurmScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(basic.conf))
    assert slurm.traits().ranking is Ranking.VALUE
    monkeypatch.setenv("SLURM_CONF", str(multifactor.conf))
    with full(multifactor):
        stale, fresh = submit(multifactor), submit(multifactor)
        # The values are priorities, and are no nice values by now.
        assert slurm.rank({stale: 700}) == {}
        assert (jobs_of(slurm)[stale].priority, jobs_of(slurm)[stale].offset) == (700, 0)
        assert slurm.traits().ranking is Ranking.OFFSET
        assert slurm.rank({fresh: 300}) == {}
        assert jobs_of(slurm)[fresh].offset == 300


def test_defaults_that_somebody_exported_hide_nothing(
    basic: SlurmCluster, slurm: SlurmScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PARTITION": "again", "USERS": "nobody", "STATES": "PD", "SORT": "i", "FORMAT": "%A"}.items():
        monkeypatch.setenv(f"SQUEUE_{name}", value)
    with full(basic) as filler:
        assert filler in jobs_of(slurm)
        assert in_use(slurm, "node1") == f"runs {filler}"


def test_a_slurmctld_that_is_gone(basic: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = tmp_path / "slurm.conf"
    slurm = SlurmScheduler(SlurmSettings(timeout_s=1))
    with reserved_ports(1) as (port,):
        dead.write_text(basic.conf.read_text().replace(f"SlurmctldPort={basic.port}", f"SlurmctldPort={port}"))
        monkeypatch.setenv("SLURM_CONF", str(dead))
        for call in (slurm.view, slurm.traits, lambda: slurm.rank({"1": 1}), lambda: slurm.defer({"1": 1})):
            with pytest.raises(SlurmIsSilent):
                call()


def node_updates(cluster: SlurmCluster) -> int:
    found = re.search(r"REQUEST_UPDATE_NODE +\( *\d+\) count:(\d+)", cluster.run("sdiag"))
    return int(found[1]) if found else 0


def test_user_without_rights_changes_no_job(basic: SlurmCluster, slurm: SlurmScheduler) -> None:
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    other = SlurmScheduler(SlurmSettings(command=nobody, timeout_s=300))
    with full(basic):
        job = submit(basic)
        assert other.rank({job: 5}) == {job: "Invalid user id"}
        assert other.notify({job: "waits"}) == {job: "Access/permission denied"}
        updates = node_updates(basic)
        refusals = other.change_nodes(["node1", "node2"], NodeChange.CLOSE, reason="offpeak: x")
        assert refusals == dict.fromkeys(["node1", "node2"], "Invalid user id")
        assert node_updates(basic) == updates + 1
        assert jobs_of(slurm)[job].priority > 5
    missing = SlurmScheduler(SlurmSettings(command=("no-such-sudo",), timeout_s=30))
    with pytest.raises(CannotAskSlurm, match="no-such-sudo: cannot be run"):
        missing.rank({"1": 5})
