"""Jobs run on the chosen one of two real clusters and a site of Torque, once, whoever dies in between."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from two_sites import TwoSites, two_sites
from zygote import Zygote

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster

SCRIPT = '#!/bin/bash\n#SBATCH --ntasks=2 --time=10 --output=/dev/null --comment="mine"\necho "$@" >>{folder}/ran\n'


@pytest.fixture(scope="module")
def sites(zygote: Zygote) -> Iterator[TwoSites]:
    with two_sites(zygote.command) as sites:
        yield sites


@pytest.fixture
def script(sites: TwoSites) -> Path:
    path = sites.here.folder / "job.sh"
    path.write_text(SCRIPT.format(folder="${SLURM_CONF%/*}"))
    return path


def offpeak(sites: TwoSites, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sites.offpeak, *arguments), env=sites.environment, capture_output=True, text=True, check=False, timeout=300
    )


def reply(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def jobs_of(cluster: SlurmCluster) -> list[list[str]]:
    shown = cluster.run("squeue", "--noheader", "--states=all", "--format=%A|%j|%l|%k")
    return [line.split("|") for line in shown.splitlines()]


def test_choose_answers_and_submits_nothing(sites: TwoSites, script: Path) -> None:
    before = jobs_of(sites.here), jobs_of(sites.there)
    answer = reply(offpeak(sites, "submit", "--dry-run", "--goal", "co2", "--json", str(script)))
    assert (answer["site"], answer["misses"]) == ("there", {})
    assert answer["second"]["site"] != "there"
    assert answer["expected"]["wait_s"] == 0
    assert "there takes least" in answer["reason"]
    assert (jobs_of(sites.here), jobs_of(sites.there)) == before


def test_a_job_runs_at_the_greener_site_over_ssh_and_is_followed(sites: TwoSites, script: Path) -> None:
    row = reply(offpeak(sites, "submit", "--key", "green-1", "--json", str(script), "--", "green", "words"))
    assert (row["site"], row["state"]) == ("there", "taken")
    ran = sites.there.folder / "ran"
    wait_until(lambda: ran.exists() and "green words" in ran.read_text(), what="the job to run there")
    job, name, limit, comment = jobs_of(sites.there)[-1]
    assert (job, name, limit, comment) == (row["job"], "job.sh", "10:00", "mine offpeak:key=green-1")
    wait_until(lambda: _at_site(sites, "green-1") == "COMPLETED", what="its end to be told")
    again = offpeak(sites, "submit", "--key", "green-1", str(script), "--", "green", "words")
    assert again.stdout.startswith(f"already submitted: job {row['job']} at there")
    other = offpeak(sites, "submit", "--key", "green-1", str(script))
    assert (other.returncode, "another job has it" in other.stderr) == (2, True)


def _at_site(sites: TwoSites, key: str) -> str:
    return str(reply(offpeak(sites, "submit", "--status", key, "--json"))["at_site"])


def test_a_connection_that_breaks_after_the_site_has_taken_the_job(sites: TwoSites, script: Path) -> None:
    sites.head.hangs_up = ("sbatch",)
    try:
        row = reply(offpeak(sites, "submit", "--key", "broken-1", "--json", str(script)))
    finally:
        sites.head.hangs_up = ()
    assert (row["site"], row["state"], row["said"]) == ("there", "taken", "found there by its key")
    assert [job[0] for job in jobs_of(sites.there) if "key=broken-1" in job[3]] == [row["job"]]


def test_a_site_of_torque_takes_a_job_that_only_it_can_run(sites: TwoSites, script: Path) -> None:
    script.write_text("#!/bin/bash\n#SBATCH --ntasks=12 --time=10 --constraint=barn\nsleep 60\n")
    row = reply(offpeak(sites, "submit", "--key", "barn-1", "--json", str(script)))
    assert (row["site"], row["job"], row["choice"]["expected"]["cores"]) == ("barn", "1.head", 16)
    assert row["choice"]["misses"]["there"] == "12 cores requested, 8 are the most, has no barn"
    assert _at_site(sites, "barn-1") == "R"
    listing = sites.barn.run("qstat", "-fx")
    assert "OFFPEAK_KEY=barn-1" in listing
    assert "<nodes>2:ppn=8</nodes>" in listing
    assert "at barn: cancelled: cancelled by " in offpeak(sites, "submit", "--cancel", "barn-1").stdout
    assert "job_state>R" not in sites.barn.run("qstat", "-fx")


def test_a_latest_finish_is_passed_on_and_a_job_can_be_cancelled(sites: TwoSites, script: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("submits here as an account without rights: needs root")
    script.write_text("#!/bin/bash\n#SBATCH --time=5 --begin=now+1hour\nsleep 60\n")
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
    arguments = ("--goal", "cost", "--latest-finish", ends, "--key", "sla-1")
    assert reply(as_nobody(sites, *arguments, "--json", str(script)))["site"] == "here"
    assert jobs_of(sites.here)[-1][3] == f"offpeak:key=sla-1,deadline={ends}"
    # Whom the kernel names, not whom the environment names.
    assert "at here: cancelled: cancelled by nobody\n" in as_nobody(sites, "--cancel", "sla-1").stdout
    assert reply(as_nobody(sites, "--status", "sla-1", "--json"))["at_site"] is None
    wait_until(lambda: not sites.here.run("squeue", "--noheader").strip(), what="the job to be gone")


def test_root_submits_nothing_at_its_own_site(sites: TwoSites, script: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script.write_text("#!/bin/bash\n#SBATCH --time=5\n")
    arguments = ("--goal", "cost", "--sites", str(_only_here(sites)), "--key", "root-1")
    done = offpeak(sites, "submit", *arguments, str(script))
    assert done.returncode == 1
    assert "refused it: jobs are not submitted as root, which is root: submit as an account" in done.stderr
    assert not [job for job in jobs_of(sites.here) if "root-1" in job[3]]


def _only_here(sites: TwoSites) -> Path:
    file = sites.here.folder / "here.toml"
    file.write_text((sites.here.folder / "sites.toml").read_text().partition("[sites.there]")[0])
    return file


def as_nobody(sites: TwoSites, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `offpeak submit` as an account without rights, with a ledger of its own."""
    folder = sites.here.folder / "nobody"
    folder.mkdir(exist_ok=True)
    shutil.chown(folder, "nobody")
    return subprocess.run(
        (sites.offpeak, "submit", "--ledger", f"sqlite:///{folder}/ledger.sqlite", *arguments),
        env={**sites.environment, "ZYGOTE_USER": "nobody", "LOGNAME": "mallory"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
