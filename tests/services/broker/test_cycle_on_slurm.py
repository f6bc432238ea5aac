"""A broker places stored jobs on real clusters and a site of Torque, each once, also if it is killed in a cycle."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from two_sites import TwoSites, two_sites
from zygote import Zygote

from benchmarks.local_slurm.processes import listens, reserved_ports, wait_until

SCRIPT = "#!/bin/bash\n#SBATCH --ntasks=2 --time=10 --output=/dev/null\nsleep 2\n"
JOBS = [f"batch-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def sites(zygote: Zygote) -> Iterator[TwoSites]:
    with two_sites(zygote.command) as sites:
        folder = sites.here.folder
        text = sites.settings.read_text().replace("[broker]\n", f"[broker]\n{BROKER.format(folder=folder)}")
        sites.settings.write_text(text)
        (folder / "token").touch(0o600)
        (folder / "token").write_text("open sesame\n")
        (folder / "job.sh").write_text(SCRIPT)
        yield sites


BROKER = 'policy = "mcmf"\ncycle = "3s"\ntoken_file = "{folder}/token"\n'


@contextmanager
def daemon(sites: TwoSites) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the broker until the block ends."""
    program = (sys.executable, "-P", "-c", "from offpeak.ui.command import main; main()", "broker")
    with reserved_ports(1) as (port,), (sites.here.folder / "broker.log").open("ab") as log:
        command = (*program, "--listen", f"127.0.0.1:{port}", "--config", str(sites.settings))
        process = subprocess.Popen(command, env=sites.environment, cwd=sites.here.folder, stderr=log)
        try:
            wait_until(lambda: listens(port), what="the broker", log=sites.here.folder / "broker.log")
            yield process
        finally:
            process.terminate()
            process.wait(300)


def offpeak(sites: TwoSites, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sites.offpeak, "submit", *arguments)
    return subprocess.run(command, env=sites.environment, capture_output=True, text=True, check=False, timeout=300)


def status(sites: TwoSites, key: str) -> Any:
    shown = offpeak(sites, "--status", key, "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def submitted_keys(sites: TwoSites) -> Counter[str]:
    """Return how often each key is at the sites."""
    shown = [
        cluster.run("squeue", "--noheader", "--states=all", "--format=%k") for cluster in (sites.here, sites.there)
    ]
    variables = re.findall("<Variable_List>.*?</Variable_List>", sites.barn.run("qstat", "-fx"), re.DOTALL)
    return Counter(re.findall("(?:offpeak:key|OFFPEAK_KEY)=([a-z0-9-]+)", "\n".join((*shown, *variables))))


def test_jobs_of_a_cycle_run_once_though_the_broker_is_killed(sites: TwoSites) -> None:
    script = str(sites.here.folder / "job.sh")
    refused = offpeak(sites, "--key", "batch-0", script)
    assert (refused.returncode, "it does not run with this ledger" in refused.stderr) == (2, True)
    with daemon(sites) as broker:
        wait_until(lambda: _store(sites, JOBS[0], script), what="the first cycle")
        for key in JOBS[1:]:
            assert _store(sites, key, script)
        offpeak(sites, "--cancel", JOBS[-1])
        wait_until(lambda: submitted_keys(sites).total() > 0, what="the first job to be placed", every_s=0.01)
        broker.send_signal(signal.SIGKILL)
        broker.wait(300)
    with daemon(sites):
        kept = JOBS[:-1]
        wait_until(lambda: all(status(sites, key)["state"] == "taken" for key in kept), what="all jobs", seconds=120)
    given = submitted_keys(sites)
    # The last one was cancelled before a site had it, or there.
    assert given - Counter([JOBS[-1]]) == Counter(kept)
    assert status(sites, JOBS[-1])["state"] == "cancelled"
    for key in kept:
        state = status(sites, key)
        assert state["site"] in ("there", "barn"), "jobs are not submitted as root on this machine"
        assert state["site"] in state["choice"]["reason"]


def _store(sites: TwoSites, key: str, script: str) -> bool:
    done = offpeak(sites, "--key", key, script)
    return done.returncode == 0 and "waits for the next cycle, at most 3 s" in done.stdout + done.stderr
