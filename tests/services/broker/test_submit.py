"""Each job goes to one site, once, also if a site refuses, forgets or is silent, or if the broker dies."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord
from offpeak.plugin.federation.sites import Grid
from offpeak.services.broker.site_commands import NoSite, NotKnown, UnknownKey
from offpeak.services.broker.submission import cancel, read_job_state

sys.path.append(str(Path(__file__).parent))
from pbs_stand_in import PbsStandIn, pbs_stand_in
from three_sites import GRID, SCRIPT, broker, broker_job, ledger_in, site_replies

WHOLE = "#!/bin/sh\n#PBS -l nodes=8:ppn=4 -l walltime=01:00:00\n"
LONG = "#!/bin/sh\n#PBS -l nodes=9:ppn=4 -l walltime=01:00:00\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = ledger_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, PbsStandIn]:
    return {name: pbs_stand_in(tmp_path / name) for name in GRID.names}


def jobs(sites: dict[str, PbsStandIn]) -> dict[str, int]:
    return {name: len(site.jobs) for name, site in sites.items() if site.jobs}


def submitted(folder: Path, ledger: Ledger, key: str = "k", **arguments: object) -> SubmissionRecord:
    return asyncio.run(broker(folder, ledger, **arguments).submit(broker_job(), key))  # type: ignore[arg-type]


def test_the_greenest_gets_it_with_its_key_and_once(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    row = submitted(tmp_path, ledger)
    assert (row.site, row.state, row.job) == ("north", "taken", "1.head")
    variables, arguments, *script = sites["north"].jobs[0].splitlines()
    assert (variables, script) == ("OFFPEAK_KEY=k", SCRIPT.splitlines())
    assert arguments == "-l walltime=01:00:00 -N job.sh -v OFFPEAK_KEY=k"
    assert submitted(tmp_path, ledger) == row
    assert jobs(sites) == {"north": 1}
    (done,) = ledger.recent(0.0)
    assert (done.intent.effect.subject, done.intent.effect.order) == ("site north", "submit")
    assert done.outcome is not None
    assert done.outcome.message == "1.head"


def test_broker_skips_refusing_sites_and_takes_the_first_of_equal_ones(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    sites["north"].set("refuse", "Unauthorized Request")
    row = submitted(tmp_path, ledger)
    assert row.site == "east"
    assert row.answer["misses"] == {"north": "refused it: Unauthorized Request"}
    assert jobs(sites) == {"east": 1}


def test_a_site_that_forgets_is_not_given_the_job_again(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    submitted(tmp_path, ledger)
    sites["north"].set("forgets")
    reply = asyncio.run(read_job_state(broker(tmp_path, ledger), "k"))
    assert (reply["state"], reply["at_site"]) == ("taken", None)
    assert reply["said"].startswith("north took it and knows it no more")
    assert submitted(tmp_path, ledger).job == "1.head"
    assert jobs(sites) == {"north": 1}


def test_a_silent_site_keeps_the_job_from_all_others_until_it_is_known(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    sites["north"].set("silent")
    sites["north"].set("down")
    for _ in range(2):
        with pytest.raises(NotKnown):
            submitted(tmp_path, ledger)
    assert jobs(sites) == {"north": 1}
    sites["north"].mend("down")
    assert (submitted(tmp_path, ledger).job, jobs(sites)) == ("1.head", {"north": 1})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_after_a_kill_the_job_is_looked_for_and_nothing_is_submitted_twice(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn], moment: str
) -> None:
    program = Path(__file__).with_name("three_sites.py")
    done = subprocess.run([sys.executable, program, tmp_path, "k", moment], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    begun = ledger.submission("k")
    assert begun is not None
    assert (begun.state, begun.site) == ("tried", "north")
    assert jobs(sites) == ({"north": 1} if moment == "after" else {})
    row = submitted(tmp_path, ledger)
    assert (row.state, row.site, jobs(sites)) == ("taken", "north", {"north": 1})


def test_job_that_a_site_may_have_forgotten_is_not_submitted_again(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    old = time.time() - 3600
    row = SubmissionRecord("k", old, "ann", broker_job().digest, "north", "tried", old)
    assert ledger.change_submission(None, row)
    with pytest.raises(NotKnown, match="would have forgotten it"):
        submitted(tmp_path, ledger)
    assert jobs(sites) == {}


def test_two_at_once_submit_one_job(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    async def both() -> list[SubmissionRecord | BaseException]:
        made = broker(tmp_path, ledger, settled_s=20.0)
        return await asyncio.gather(*(made.submit(broker_job(), "k") for _ in range(2)), return_exceptions=True)

    answers = asyncio.run(both())
    assert jobs(sites) == {"north": 1}
    assert {answer.job for answer in answers if isinstance(answer, SubmissionRecord)} == {"1.head"}


def test_the_state_is_shown_while_the_job_is_submitted(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    async def both() -> list[object]:
        made = broker(tmp_path, ledger, moment="slow", settled_s=20.0)
        submission = asyncio.create_task(made.submit(broker_job(), "k"))
        while not jobs(sites):
            await asyncio.sleep(0.001)
        return await asyncio.gather(submission, *(read_job_state(made, "k") for _ in range(5)), return_exceptions=True)

    row, *states = asyncio.run(both())
    assert row == ledger.submission("k")
    assert [(state["state"], state["job"]) for state in states] == [("taken", "1.head")] * 5  # type: ignore[index]
    assert jobs(sites) == {"north": 1}


def test_all_sites_stale_is_reported_at_once(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    old = dict.fromkeys(GRID.names, "its agent does not answer: refused")
    with pytest.raises(NoSite, match="north: its agent does not answer: refused; east: "):
        submitted(tmp_path, ledger, replies=site_replies(**old))
    assert ledger.submission("k") is None
    assert jobs(sites) == {}


def test_a_job_that_nobody_can_run_hears_what_is_missing_where(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(NoSite, match="north: 36 cores requested, 32 are the most") as problem:
        asyncio.run(broker(tmp_path, ledger).submit(broker_job(LONG), "k"))
    assert "south: 36 cores requested" in str(problem.value)


def test_a_latest_finish_that_has_passed(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(BadInput, match="latest-finish has passed"):
        asyncio.run(broker(tmp_path, ledger).submit(broker_job(latest_end_s=int(time.time()) - 1), "k"))


def test_in_shadow_it_is_only_recorded(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    with pytest.raises(OffpeakError, match="only recorded in mode shadow") as refused:
        submitted(tmp_path, ledger, mode="shadow")
    assert "below [broker]" in refused.value.hint
    assert jobs(sites) == {}
    assert submitted(tmp_path, ledger).state == "taken"


def test_a_key_is_of_one_job(tmp_path: Path, ledger: Ledger) -> None:
    submitted(tmp_path, ledger)
    with pytest.raises(BadInput, match="another job has it"):
        asyncio.run(broker(tmp_path, ledger).submit(broker_job(goal="cost"), "k"))


def test_cancelled_job_is_not_submitted_again(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    submitted(tmp_path, ledger)
    assert asyncio.run(cancel(broker(tmp_path, ledger), "k")).state == "cancelled"
    assert submitted(tmp_path, ledger).state == "cancelled"
    assert jobs(sites) == {}
    with pytest.raises(UnknownKey):
        asyncio.run(cancel(broker(tmp_path, ledger), "other"))


def test_between_two_polls_what_is_idle_is_given_away_once(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    same = site_replies()
    rows = [
        asyncio.run(broker(tmp_path, ledger, replies=same).submit(broker_job(WHOLE, goal="time"), key))
        for key in ("k1", "k2", "k3", "k4")
    ]
    assert [row.site for row in rows] == ["north", "east", "south", "north"]
    assert len(sites["north"].jobs) == 2


def test_an_allocation_is_spent_by_what_was_sent_and_given_back_by_a_job_cancelled(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    grid = Grid((replace(GRID.sites[0], allocations={"climate": 6.0}), *GRID.sites[1:]))
    made = broker(tmp_path, ledger)
    made = replace(made, federation=replace(made.federation, grid=grid))
    project = broker_job(SCRIPT.replace("#PBS", "#PBS -A climate", 1))
    assert [asyncio.run(made.submit(project, key)).site for key in ("k1", "k2")] == ["north", "east"]
    misses = ledger.submission("k2")
    assert misses is not None
    assert misses.answer["misses"] == {"north": "climate has 2 of 6 core-hours left"}
    asyncio.run(cancel(made, "k1"))
    assert asyncio.run(made.submit(project, "k3")).site == "north"
    assert jobs(sites) == {"north": 1, "east": 1}


def test_a_site_that_leaves_after_the_choice_is_passed_over_and_its_jobs_are_not_forgotten(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    assert submitted(tmp_path, ledger, "k1").site == "north"
    sites["north"].set("refuse", "cannot connect to server head (errno=111)")
    assert submitted(tmp_path, ledger, "k2").site == "east"
    made = broker(tmp_path, ledger)
    gone = replace(made, sites={name: site for name, site in made.sites.items() if name != "north"})
    with pytest.raises(NotKnown, match="north: is no longer in the file of sites"):
        asyncio.run(read_job_state(gone, "k1"))
    assert asyncio.run(gone.submit(broker_job(), "k1")).site == "north"
    assert jobs(sites) == {"north": 1, "east": 1}
