"""What an agent is given of a powered cluster can be read by offpeak, and agents can be killed and started again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from powered_fixtures import StartPowered
from zygote import zygote_in

from benchmarks.local_slurm.agent import RunningAgent, Start, run_offpeak, start_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.plan import PoweredPlan

CHANGES = {"agent": {"mode": "shadow"}, "prices": {"tariff": "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"}}


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=2))


@pytest.fixture(scope="module")
def settings(cluster: PoweredCluster) -> Iterator[Path]:
    with metered_racks(cluster) as racks:
        yield write_site(cluster, CHANGES, racks=racks)


@pytest.mark.usefixtures("settings")
def test_everything_in_the_inventory_answers(cluster: PoweredCluster) -> None:
    checked = run_offpeak(cluster, "check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.usefixtures("settings")
def test_bmc_and_outlet_tell_the_same_watts(cluster: PoweredCluster) -> None:
    output = run_offpeak(cluster, "power").stdout
    assert "at its outlets: 200 W, 2 of 2 nodes" in output
    assert "by its BMC: 200 W, 2 of 2 nodes" in output


def waits_for_ever(cluster: PoweredCluster, by: Start) -> RunningAgent:
    """Return an agent of the cluster, in mode shadow."""
    arguments = ("agent", "--config", str(cluster.folder / "offpeak.toml"))
    return RunningAgent(cluster, arguments, by)


@pytest.mark.usefixtures("settings")
def test_an_agent_is_killed_and_started_again(cluster: PoweredCluster, tmp_path: Path) -> None:
    with zygote_in(tmp_path) as zygote:
        for by in (start_offpeak, zygote.start):
            made = waits_for_ever(cluster, by)
            made.start()
            made.restart()
            assert made.runs
            with pytest.raises(RuntimeError, match="runs"):
                made.start()
            made.kill9()
            assert (made.runs, made.starts) == (False, 2)
        short = RunningAgent(cluster, ("--version",), zygote.start)
        short.start()
        assert short.process is not None
        assert short.process.wait(10) == 0
        left = waits_for_ever(cluster, zygote.start)
        left.start()
    assert left.process is not None
    assert left.process.wait(10) == 0
    assert "offpeak 0." in left.log.read_text()
