"""A grid event that only jobs with checkpoints can answer: one is stopped and goes on later, one does not answer."""

import json
import logging
import time
from collections.abc import Iterator

import pytest
from node_story import FLAT, wait_for_line
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.meters import MeteredRacks, metered_racks
from benchmarks.local_slurm.node import BUSY_W, OFF_W
from benchmarks.local_slurm.plan import PoweredPlan

LOG = logging.getLogger(__name__)
NODES, LASTS_S, WORK_S = 4, 150, 180
SCRIPT = """\
#!/bin/bash
scontrol update jobid=$SLURM_JOB_ID requeue=0
say() {{ echo "$1 $SLURM_JOB_ID $SLURM_RESTART_COUNT" >>{trace}; }}
checkpoint() {{ say asked; {answer}; }}
trap checkpoint USR1
say start
left=$(cat {trace}.$SLURM_JOB_ID 2>/dev/null || echo {seconds})
while [ $left -gt 0 ]; do sleep 1; left=$((left - 1)); done
say end
"""
ANSWER = "echo $left >{trace}.$SLURM_JOB_ID; scontrol update jobid=$SLURM_JOB_ID requeue=1"


@pytest.fixture
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(
        PoweredPlan(nodes=NODES, boot_s=5.0, shutdown_s=5.0, suspend_timeout_s=10, resume_timeout_s=60)
    )


@pytest.fixture
def racks(cluster: PoweredCluster) -> Iterator[MeteredRacks]:
    with metered_racks(cluster) as made:
        yield made


@pytest.mark.nightly
def test_a_job_with_a_checkpoint_is_stopped_in_an_event_and_one_that_writes_none_goes_on(
    cluster: PoweredCluster, racks: MeteredRacks, zygote: Zygote
) -> None:
    trace = cluster.folder / "trace"
    trace.touch()

    def submit(nodes: int, answer: str, within: str, seconds: int) -> str:
        text = SCRIPT.format(trace=trace, answer=answer.format(trace=trace), seconds=seconds)
        options = (f"--nodes={nodes}", "--output=/dev/null", "--time=10", f"--comment=offpeak:checkpoint={within}")
        return cluster.run("sbatch", "--parsable", *options, stdin=text).strip()

    def lines() -> list[str]:
        return [line.strip() for line in trace.read_text().splitlines()]

    silent, willing = submit(2, ":", "5s", 600), submit(1, ANSWER, "15s", WORK_S)
    (rigid,) = cluster.jobs.submit(nodes=1, seconds=600)
    cluster.wait(lambda: set(cluster.jobs.states().values()) == {"RUNNING"}, what="all jobs to run")
    started_s = time.time()
    # Without the one node of the willing job.
    cap_w = (NODES - 1) * BUSY_W + 2 * OFF_W
    changes = {"agent": {"capacity": "timeout:1h", "cycle": "5s", "hands_off": "10min"}, **FLAT}
    with agent(cluster, write_site(cluster, changes, racks=racks), by=zygote.start) as running:
        wait_for_line(running, "started")

        def draw_w() -> float | None:
            answer = run_offpeak(cluster, "status", "--json")
            return json.loads(answer.stdout)["nodes"]["watts"] if answer.returncode == 0 else None

        cluster.wait(lambda: draw_w() == NODES * BUSY_W, what="the agent to measure the draw")
        # A job that has just started is not asked.
        time.sleep(max(0.0, started_s + 16 - time.time()))
        assert run_offpeak(cluster, "shed", f"{cap_w:.0f}W", "--for", f"{LASTS_S}s").returncode == 0
        ordered_s = time.time()
        cluster.wait(lambda: f"asked {silent}" in lines(), what="the larger job to be asked")
        cluster.wait(lambda: f"asked {willing}" in lines(), what="the other job to be asked")
        cluster.wait(lambda: cluster.jobs.states()[willing] == "PENDING", what="its requeue")
        cluster.wait(lambda: (draw_w() or 0.0) <= cap_w, what="the draw to be below the cap")
        below_s = time.time() - ordered_s
        cluster.wait(lambda: cluster.jobs.begin_s(willing) > ordered_s + LASTS_S - 5, what="its begin time")
        assert time.time() < ordered_s + LASTS_S
        assert lines().count(f"start {willing}") == 1
        cluster.wait(lambda: f"end {willing} 1" in lines(), what="the stopped job to go on and end", seconds=400)
        assert time.time() > ordered_s + LASTS_S
        left_s = int((cluster.folder / f"trace.{willing}").read_text())
        answer = json.loads(run_offpeak(cluster, "shed", "--json").stdout)
    assert left_s < WORK_S, "it goes on from its checkpoint"
    states = cluster.jobs.states()
    assert (states[silent], states[rigid], states[willing]) == ("RUNNING", "RUNNING", "COMPLETED")
    assert cluster.jobs.lost() == [willing], "no other job was requeued, none has failed"
    assert cluster.log.violations == ()
    (delivery,) = answer
    assert [rung.partition(",")[0] for rung in delivery["rungs"]] == [
        f"checkpoints of 1 job ({silent})",
        f"goes on job {silent}: no checkpoint within 5 s of the signal: it goes on",
        f"checkpoints of 1 job ({willing})",
    ]
    assert delivery["held"] > 0.5
    LOG.info("below the cap after %.0f s; the stopped job had %d s left", below_s, left_s)
