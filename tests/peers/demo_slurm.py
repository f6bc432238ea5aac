"""`make demo-slurm`: offpeak on a real Slurm of this machine, whose nodes sleep, wake and run jobs, in two minutes."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from demo_plan import CHEAP, DEAR, KINDS, NODES, Coming, jobs_to_come, next_edge, write_prices
from demo_story import Story, saved
from needed_programs import SEARCH_PATH
from power_meter import metered_racks
from powered_cluster import NEEDED, PoweredCluster, powered_cluster
from powered_node import IDLE_W
from powered_plan import PoweredPlan
from rich.console import Console
from running_agent import RunningAgent, agent, asked_offpeak
from site_files import write_site

LASTS_S = 120.0
LOOK_S, PICTURE_S = 0.5, 10.0
PLAN = PoweredPlan(nodes=NODES, boot_s=2.0, shutdown_s=1.0)


def main() -> int:
    """Return 0 if no job was lost."""
    said = Console(highlight=False, soft_wrap=True)
    if lacking := [program for program in NEEDED if not shutil.which(program, path=SEARCH_PATH)]:
        said.print(f"no demo without {', '.join(lacking)}: as root on Debian, .ci/prepare-peers installs them")
        return 2
    begin_s = time.time()
    edge_s = next_edge(begin_s)
    with _stage(said) as cluster:
        with _agent(cluster, edge_s) as running:
            _play(cluster, said, running, edge_s)
            if not running.runs:
                said.print(f"the agent has ended: {running.log.read_text().strip()}")
                return 1
            _sum_up(cluster, said, time.time() - begin_s)
        return 1 if cluster.log.sins else 0


@contextmanager
def _stage(said: Console) -> Iterator[PoweredCluster]:
    """Start everything but the agent, and say how to look at it."""
    with ExitStack() as stack:
        cluster = stack.enter_context(powered_cluster(PLAN))
        said.print(f"Slurm runs on {NODES} nodes of this machine, each with a BMC and on a metered outlet.")
        said.print("To look at it from another terminal:")
        for name, file in (("SLURM_CONF", cluster.slurm.conf), ("OFFPEAK_CONFIG", cluster.folder / "offpeak.toml")):
            said.print(f"  export {name}={file}")
        said.print("  sinfo; squeue --start; offpeak nodes; offpeak ledger actions\n")
        yield cluster


@contextmanager
def _agent(cluster: PoweredCluster, edge_unix_s: float) -> Iterator[RunningAgent]:
    """Run the agent with prices that fall at the edge."""
    prices = cluster.folder / "prices_eur_per_mwh.csv"
    write_prices(prices, edge_unix_s)
    with metered_racks(cluster) as racks:
        draws = [f"{kind.name}={kind.watts:g}W" for kind in KINDS]
        changes = {
            "prices": {"file": str(prices), "peak_rule": "day-mean"},
            "power": {"classes": draws},
            "agent": {"capacity": "timeout:6s", "longest_delay": "10min"},
        }
        settings = write_site(cluster, changes, racks=racks)
        with agent(cluster, settings) as running:
            yield running


def _play(cluster: PoweredCluster, said: Console, running: RunningAgent, edge_unix_s: float) -> None:
    """Submit the jobs as they come, and tell what happens, until time is up."""
    begin_s, picture_s = time.time(), 0.0
    story, to_come, edge_s = Story(cluster, begin_s), list(jobs_to_come()), edge_unix_s - begin_s
    said.print(f"    0 s  electricity costs {DEAR:g} EUR/MWh, from {edge_s:.0f} s on {CHEAP:g} EUR/MWh")
    while (now_s := time.time() - begin_s) < LASTS_S and running.runs:
        while to_come and to_come[0].at_s <= now_s:
            _submit(cluster, to_come.pop(0))
        for line in story.news():
            said.print(line)
        if now_s >= picture_s:
            price = DEAR if now_s < edge_s else CHEAP
            said.print(f"[dim]{now_s:5.0f} s  {price:g} EUR/MWh; {story.picture()}")
            picture_s += PICTURE_S
        time.sleep(LOOK_S)


def _submit(cluster: PoweredCluster, job: Coming) -> None:
    name = f"--job-name={job.kind.name}"
    cluster.jobs.submit(name, seconds=job.seconds, nodes=job.nodes, watts=job.kind.watts)


def _sum_up(cluster: PoweredCluster, said: Console, seconds: float) -> None:
    """Say what the outlets and the jobs tell, then what the agent says and has written into its ledger."""
    said.print(f"\n{saved(cluster, seconds, IDLE_W)}")
    started, sins = len(cluster.jobs.started()), len(cluster.log.sins)
    said.print(f"{started} jobs were started, {sins} times power was taken from a job.\n")
    for words in (("status",), ("ledger", "energy", "--by", "user", "--starttime", "now-5minutes")):
        answer = asked_offpeak(cluster, *words)
        said.print(f"$ offpeak {' '.join(words)}\n{answer.stdout}{answer.stderr}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
