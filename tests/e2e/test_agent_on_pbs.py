"""The agent on Torque and OpenPBS: idle nodes go to sleep, jobs wake them, and the queue stands as the price says."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pbs_site import PbsSite, pbs_site

from power.broker.over_socket import over_socket
from sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

DEAR = {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:59"}
OF_EACH = 3


@pytest.fixture(params=[TORQUE, OPENPBS])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PbsSite]:
    with pbs_site(request.param, tmp_path) as running:
        yield running


def test_idle_nodes_sleep_and_jobs_wake_them_whatever_happens_meanwhile(site: PbsSite) -> None:
    settings = site.write_settings({"agent": {"queue": "off"}})
    site.close_by_hand("n3")
    with site.agent(settings) as first:
        site.wait(lambda: site.powered() == ["n3"], what="all nodes to be off but the admin's", seconds=90)
        # In the middle: they are off, and the server has not been told yet.
        first.kill()
        first.wait()
    with site.agent(settings):
        site.wait(lambda: len(site.asleep()) == 2, what="the next agent to go on", seconds=60)
        with site.without_server():
            time.sleep(2.5)
            assert site.powered() == ["n3"]
        one = site.submit(nodes=1, seconds=3)
        site.wait(lambda: one in site.started(), what="a node to be woken for a job", seconds=60)
        # None that it did not need.
        assert len(site.powered()) == 2
        wide = site.submit(nodes=3, seconds=1)
        site.open_by_hand("n3")
        site.wait(lambda: wide in site.started(), what="all nodes to be woken for a wide one", seconds=60)
    assert not site.lost()


def test_the_queue_stands_as_the_price_says_and_in_the_end_as_it_did(site: PbsSite) -> None:
    draws = {"classes": ["hot=400W", "cool=150W"]}
    blocker = site.submit(nodes=3, seconds=600)
    hot, cool = [], []
    for _ in range(OF_EACH):
        hot.append(site.submit(nodes=3, seconds=0.2, name="hot"))
        cool.append(site.submit(nodes=3, seconds=0.2, name="cool"))
    by_site = [job for pair in zip(hot, cool, strict=True) for job in pair]

    def order() -> list[str]:
        return site.standin.do(lambda pbs: [pbs.job_id(job) for job in pbs.cluster.pending(2**40)])

    assert order() == by_site
    changes = {"agent": {"capacity": "always-on"}, "prices": DEAR, "power": draws, "scheduling": {"window": 100}}
    with site.agent(site.write_settings(changes)):
        site.wait(lambda: order() == cool + hot, what="the frugal ones to be first")
    # Who ends politely gives the site its own order again.
    assert order() == by_site
    with site.agent(site.write_settings(changes)):
        site.wait(lambda: order() == cool + hot, what="the frugal ones to be first once more")
        site.standin.run("qdel", blocker)
        site.wait(lambda: len(site.started()) == 1 + 2 * OF_EACH, what="all jobs to start")
    assert site.started() == [blocker, *cool, *hot]


def test_in_shadow_mode_nothing_changes(site: PbsSite) -> None:
    site.submit(nodes=3, seconds=600)
    site.submit(nodes=1, seconds=1, name="hot", variables="OFFPEAK=delay=12h")

    def kept() -> str:
        return site.standin.do(lambda pbs: repr((pbs.cluster.jobs, pbs.attributes, pbs.cluster.nodes)))

    before = kept()
    with site.agent(site.write_settings({"agent": {"mode": "shadow"}, "prices": DEAR})):
        site.wait(lambda: "started in mode shadow" in site.log.read_text(), what="the agent")
        site.wait(lambda: (site.folder / "ledger.sqlite").exists(), what="its ledger")
        time.sleep(4)
        assert "Traceback" not in site.log.read_text()
        said = json.loads(asyncio.run(over_socket(site.folder / "agent.sock")))
        assert said["scheduler"].startswith(site.kind)
        assert [said[each] for each in ("cores", "idle_cores", "running", "queued")] == [24, 0, 1, 1]
    assert kept() == before
    assert len(site.powered()) == 3
