"""A price moves jobs only within one queue priority and one entity of fair share."""

from dataclasses import replace

import pytest
from queue_site import RULES, Site, a_job

from offpeak.model.cluster import UNKNOWN, Cluster, NodeType, Partition, Pool
from offpeak.plugin.contract.pbs import parse_sched_config
from offpeak.plugin.pbs.jobs import PbsJob
from offpeak.plugin.pbs.rights import read_fair_share_entity, with_priority_classes
from offpeak.plugin.scheduler.port import Ranking

pytestmark = pytest.mark.quick

QUEUES = {"express": {"Priority": "150"}, "workq": {}}


@pytest.mark.parametrize(
    ("written", "entity"),
    [
        ("fair_share: true\tALL\nfairshare_entity: Account_Name\n", "Account_Name"),
        ("  fair_share : True ALL\n#fairshare_entity: egroup\n", "euser"),
        ("fair_share: false\tALL\nfairshare_entity: queue\n", ""),
        ("fair_share: true prime\nfair_share: false non_prime\n", "euser"),
        ("fair_share: false PRIME\nfair_share: true NON_PRIME\nfairshare_entity: queue\n", "queue"),
        ("", ""),
    ],
)
def test_the_entity_is_read_from_sched_config(written: str, entity: str) -> None:
    assert read_fair_share_entity(parse_sched_config(written)) == entity


@pytest.mark.parametrize(("entity", "order"), [("", ["1", "5", "4", "3", "2"]), ("euser", ["1", "3", "2", "5", "4"])])
def test_jobs_stay_behind_those_of_a_queue_of_higher_priority_and_of_other_users(entity: str, order: list[str]) -> None:
    jobs = [a_job(1, partitions=("express",), priority=0)]
    jobs += [a_job(at, partitions=("workq",), priority=0, user="ann" if at < 4 else "bob") for at in range(2, 6)]
    classed = with_priority_classes([PbsJob(job, 0, None) for job in jobs], QUEUES, entity)
    site = Site(tuple(each.job for each in classed), Ranking.TERM)
    pool = Pool(NodeType(UNKNOWN), frozenset(QUEUES), 100)
    cluster = Cluster((pool,), {name: Partition(name, shared=True) for name in QUEUES})
    # The later a job is, the less it draws: on-peak the last goes first.
    site = replace(site, facts={"cluster": cluster, "node_power_w": {str(at): 600.0 - 100 * at for at in range(1, 6)}})
    found = site.apply(site.plan(replace(RULES, priority_band_percent=10))).order()
    assert found == order
