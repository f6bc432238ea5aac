"""Two clusters of one slurmdbd: the broker at the one reaches the other by `sbatch -M`, without a login there."""

import asyncio
from collections.abc import Iterator

import pytest
from local_server import reserved_ports, wait_until
from slurm_cluster import Cluster, slurmctld, slurmd, wait_for_nodes
from slurm_fixtures import SlurmAccounting

from plugin.federation.reach import parse_reach
from plugin.federation.site import Site
from plugin.scheduler.batch import Errand
from power.broker.at_site import AtSite, at_site
from power.broker.errors import NotKnown, SiteRefused

SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=1 --output=/dev/null --chdir=/\necho $SLURM_CLUSTER_NAME $1 >>{ran}\nsleep 60\n"


@pytest.fixture(scope="module")
def other(slurm_accounting: SlurmAccounting) -> Iterator[Cluster]:
    here = slurm_accounting.cluster
    folder = here.folder / "other"
    folder.mkdir()
    with reserved_ports(2) as (port, node_port):
        cluster = Cluster(folder, here.munge, port, (node_port,), here.settings, name="other")
        cluster.write_conf()
        here.run("sacctmgr", "--immediate", "add", "cluster", cluster.name)
        with slurmctld(cluster), slurmd(cluster, 1):
            wait_for_nodes(cluster)
            wait_until(lambda: _is_known(here, cluster), what="slurmdbd to know where the other cluster is")
            yield cluster


def _is_known(here: Cluster, other: Cluster) -> bool:
    words = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", other.name, "format=controlport")
    return here.run(*words).strip() == str(other.port)


@pytest.fixture
def route(slurm_accounting: SlurmAccounting, monkeypatch: pytest.MonkeyPatch) -> AtSite:
    for name, value in slurm_accounting.cluster.environment.items():
        monkeypatch.setenv(name, value)
    return at_site(Site("fjord", 1, 100.0, cores_per_unit=4, reach=parse_reach("slurm -M other")))


def test_a_job_runs_at_the_other_cluster_and_is_found_followed_and_cancelled(
    slurm_accounting: SlurmAccounting, other: Cluster, route: AtSite
) -> None:
    ran = other.folder / "ran"
    errand = Errand("m-1", SCRIPT.format(ran=ran), "job.sh", ("word",), 600, None, 4)
    job = asyncio.run(route.submit(errand))
    wait_until(lambda: ran.exists() and "word" in ran.read_text(), what="the job to run there")
    standing = asyncio.run(route.find("m-1"))
    assert standing is not None
    assert (standing.job, standing.state) == (job, "RUNNING")
    assert asyncio.run(route.find("m-2")) is None
    assert asyncio.run(route.cancel(job)) == "cancelled"
    wait_until(lambda: _ended(route, job), what="the job to be cancelled")
    assert "m-1" not in slurm_accounting.cluster.run("squeue", "--noheader", "--states=all", "--format=%k")


def _ended(route: AtSite, job: str) -> bool:
    standing = asyncio.run(route.standing(job))
    return standing is not None and standing.state == "CANCELLED"


@pytest.mark.usefixtures("route")
def test_a_cluster_that_slurmdbd_does_not_know_has_no_job() -> None:
    unknown = at_site(Site("x", 1, 100.0, reach=parse_reach("slurm -M nobody")))
    with pytest.raises(SiteRefused, match="nobody"):
        asyncio.run(unknown.submit(Errand("m-3", SCRIPT, "job.sh", (), 600, None, 4)))
    with pytest.raises(NotKnown):
        asyncio.run(unknown.find("m-3"))
