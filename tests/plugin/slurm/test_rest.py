"""slurmrestd tells what Slurm's commands tell; and what happens where it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dripping_server import dripping_server
from needed_programs import need
from slurm_fixtures import sleeping_slurm
from slurm_queue import full, submit
from slurmrestd_server import PACKAGES, PROGRAMS, settings_with_key, slurmrestd, token_file

from benchmarks.local_slurm.processes import reserved_ports, wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.errors import BadInput, BadSetting
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.scheduler import SlurmRest, SlurmScheduler, newest_rest_version
from offpeak.settings.agent import SlurmSettings


@pytest.fixture(scope="module")
def cluster_with_rest() -> Iterator[tuple[SlurmCluster, str]]:
    need(PROGRAMS, packages=PACKAGES)
    with (
        sleeping_slurm("priority/basic", settings_for=settings_with_key) as cluster,
        reserved_ports(1) as (port,),
        slurmrestd(cluster, port) as url,
    ):
        yield cluster, url


def comparable(job: Job) -> Job:
    # slurmrestd of 22.05 shows no planned nodes, and may be read before the backfill has planned.
    return job._replace(hosts="", start_s=None, end_s=None, reason="")


def views_of_one_moment(one: SlurmScheduler, other: SlurmScheduler) -> tuple[SchedulerView, SchedulerView]:
    """Return two views between which slurmctld has changed nothing."""
    views: list[SchedulerView] = []

    def is_unchanged() -> bool:
        views[:] = [other.view(), one.view(), other.view()]
        return views[0].jobs == views[2].jobs and views[0].nodes == views[2].nodes

    wait_until(is_unchanged, what="slurmctld to change nothing")
    return views[1], views[2]


def test_slurmrestd_agrees_with_squeue_and_scontrol(
    cluster_with_rest: tuple[SlurmCluster, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, url = cluster_with_rest
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    token = token_file(cluster, tmp_path / "token")
    rest = SlurmScheduler(SlurmSettings(read="rest", rest_url=url, rest_token=token))
    create = ("scontrol", "create", "reservation", "starttime=now+200000", "duration=60", "users=root", "flags=maint")
    cluster.run(*create, "reservationname=works", "nodes=node[1-2]")
    with full(cluster):
        submit(cluster, "--array=1-9", "--time=30")
        submit(cluster, "--hold", "--comment=a|b", "--exclusive", "--partition=batch,again")
        submit(cluster, "--begin=now+3600", "--mem=500", "--nodelist=node1", "--nice=5")
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=offpeak: sleeps")
        # A job has no reason until the scheduler has looked at it for the first time.
        wait_until(
            lambda: all(job.reason for job in rest.view().jobs if job.state is JobState.PENDING),
            what="a reason for each pending job",
        )
        for read in ("text", "json"):
            by_rest, other = views_of_one_moment(rest, SlurmScheduler(SlurmSettings(read=read)))
            assert set(map(comparable, by_rest.jobs)) == set(map(comparable, other.jobs))
            assert set(by_rest.nodes) == set(other.nodes)
            assert by_rest.reservations == other.reservations


def test_a_token_that_is_refused(cluster_with_rest: tuple[SlurmCluster, str], tmp_path: Path) -> None:
    _, url = cluster_with_rest
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJyb290In0.AAAA\n")
    with pytest.raises(CannotAskSlurm, match=f"{url}.*: (refuses the token in|answers 500)"):
        SlurmRest(url, token, timeout_s=120).read()
    token.chmod(0o644)
    with pytest.raises(BadInput, match="others than its owner may read it"):
        SlurmRest(url, token, timeout_s=120).read()


def test_a_server_that_is_gone_or_not_named(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("secret\n")
    with reserved_ports(1) as (port,), pytest.raises(SlurmIsSilent, match="cannot be reached: ConnectionError"):
        SlurmRest(f"http://127.0.0.1:{port}", token, timeout_s=120).read()
    with dripping_server() as server, pytest.raises(SlurmIsSilent, match=r"no answer within 0.5 s"):
        SlurmRest(server.url, token, timeout_s=0.5).read()
    with pytest.raises(BadSetting, match="needs rest_url and rest_token"):
        SlurmScheduler(SlurmSettings(read="rest"))


def test_the_newest_version_is_used(shared: Path) -> None:
    recorded = shared / "data" / "captures" / "slurm" / "22.05" / "openapi_v0.0.38.json"
    assert newest_rest_version(recorded.read_bytes()) == "v0.0.38"
    assert (
        newest_rest_version(b'{"paths": {"/slurm/v0.0.9/jobs": 1, "/slurm/v0.0.44/jobs/": 1, "/x/v0.0.50/jobs/": 1}}')
        == "v0.0.44"
    )
    assert newest_rest_version(b"<html>") == newest_rest_version(b"[]") == ""
