"""A site of Torque or OpenPBS takes jobs by qsub, shows them by qstat, by number and key, and ends them by qdel."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pbs_standin import StandIn, standin

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import SchedulerError
from offpeak.plugin.pbs.batch import PbsBatch
from offpeak.plugin.scheduler.batch import BatchJob, BatchResult, JobSubmission
from offpeak.services.broker.site_commands import LocalRoute, NotKnown, SiteCommands, SiteRefused, Submitter
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE

SCRIPT = "#!/bin/sh\nsleep {seconds}\n"


@dataclass(frozen=True)
class ToStandIn:
    """The way to a server with a folder of commands: implements offpeak.services.broker.site_commands.SiteRoute."""

    site: StandIn

    async def run(self, arguments: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
        """Run a command with that folder first."""
        return await LocalRoute().run(("env", f"PATH={self.site.path}", *arguments), stdin=stdin, timeout_s=timeout_s)


@pytest.fixture(params=[TORQUE, OPENPBS])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SiteCommands]:
    with standin(request.param, tmp_path) as running:
        yield SiteCommands("barn", PbsBatch(), ToStandIn(running), Submitter("ann", right=""))


def submission(key: str, *, seconds: float = 60.0) -> JobSubmission:
    return JobSubmission(
        key, SCRIPT.format(seconds=seconds), "night.sh", (), 3600, 16, 8, latest_finish="2026-11-23T08:00Z"
    )


def test_a_job_is_submitted_found_by_its_key_followed_and_cancelled(site: SiteCommands) -> None:
    job = asyncio.run(site.submit(submission("night-17")))
    assert asyncio.run(site.find("night-17")) == BatchJob(job, "R") == asyncio.run(site.find_by_id(job))
    assert asyncio.run(site.find("night-1")) is None
    waits = asyncio.run(site.submit(submission("night-18")))
    assert asyncio.run(site.find_by_id(waits)) == BatchJob(waits, "Q")
    assert asyncio.run(site.cancel(job)) == "cancelled"
    wait_until(lambda: _state(site, waits) == "R", what="the next job to start")
    assert _state(site, job) not in ("R", "Q")


def test_a_manager_of_the_server_submits_nothing(site: SiteCommands) -> None:
    # The stand-in's managers are root and the user that runs it.
    as_root = replace(site, submitter=Submitter("root", right=""))
    with pytest.raises(SiteRefused, match="barn: jobs are not submitted as root, which is PBS manager: submit as"):
        asyncio.run(as_root.submit(submission("night-19")))
    assert asyncio.run(site.find("night-19")) is None


def test_a_list_that_only_complains_is_no_empty_list(site: SiteCommands, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    qstat = tmp_path / "first" / "qstat"
    qstat.write_text("#!/bin/sh\necho 'qstat: End of File' >&2\n")
    qstat.chmod(0o755)

    @dataclass(frozen=True)
    class Complaining:
        async def run(self, arguments: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> BatchResult:
            return await LocalRoute().run(
                ("env", f"PATH={qstat.parent}:/usr/bin", *arguments), stdin=stdin, timeout_s=timeout_s
            )

    with pytest.raises(NotKnown, match="qstat: End of File"):
        asyncio.run(replace(site, route=Complaining()).find("night-17"))
    # An empty list with code 0 and no complaint of qstat, of a shell that runs no command, or of a server without jobs.
    qstat.write_text("#!/bin/sh\necho 'Authorized use only' >&2\n")
    with pytest.raises(NotKnown, match="qstat -Bf shows no server"):
        asyncio.run(replace(site, route=Complaining()).find("night-17"))
    server = (
        "Server: barn\n    server_state = Active\n    state_count = Transit:0 Queued:{} Running:1 Comp\n\tlete:2 \n"
    )
    qstat.write_text(f"#!/bin/sh\ncase $1 in -Bf) echo '{server.format(0)}';; esac\n")
    with pytest.raises(NotKnown, match="no job of this account, and the server counts 1 of all: qmgr -c"):
        asyncio.run(replace(site, route=Complaining()).find("night-17"))
    one = "Job Id: 7.barn\n    job_state = R\n"
    everybody = f"{server}    query_other_jobs = True\n"
    qstat.write_text(f"#!/bin/sh\ncase $1 in -Bf) echo '{everybody.format(1)}';; *) echo '{one}';; esac\n")
    with pytest.raises(NotKnown, match="qstat shows 1 jobs, and the server counts 2"):
        asyncio.run(replace(site, route=Complaining()).find("night-17"))
    qstat.write_text(f"#!/bin/sh\ncase $1 in -Bf) echo '{everybody.format(0)}';; *) echo '{one}';; esac\n")
    assert asyncio.run(replace(site, route=Complaining()).find("night-17")) is None


def test_a_refusal_of_the_site_is_reported(site: SiteCommands) -> None:
    with pytest.raises(SiteRefused, match="Unknown Job"):
        asyncio.run(site.cancel("4711.head"))


def test_a_forged_record_makes_no_other_job_ours() -> None:
    real = "Job Id: 7.head\n    job_state = R\n    Variable_List = OFFPEAK_KEY=other-1,X=a,\n\tOFFPEAK_KEY=mine-1\n"
    batch = PbsBatch()
    assert batch.find_by_key(real, key="mine-1") == BatchJob("7.head", "R")
    assert batch.find_by_key(real, key="other-1") is None
    forged = real + "\nJob Id: 8.head\n    job_state = R\n    Variable_List = X=\nJob Id: 7.head\n    job_state = E\n"
    with pytest.raises(SchedulerError, match=r"several jobs look like the one: 7\.head, 7\.head"):
        batch.find_by_id(forged, job="7.head")


def _state(site: SiteCommands, job: str) -> str | None:
    standing = asyncio.run(site.find_by_id(job))
    return None if standing is None else standing.state
