"""Stored jobs are placed together, each once, with a reason; whoever dies, cancels or does not answer in between."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offpeak.errors import BadInput
from offpeak.ledger.ledger import Ledger
from offpeak.plugin.federation.live_cycle import SiteReply
from offpeak.plugin.federation.site_report import WaitTable
from offpeak.plugin.federation.sites import Grid
from offpeak.plugin.scheduler.batch import BatchResult
from offpeak.process import login_name
from offpeak.services.broker.placement_cycle import check_daemon
from offpeak.services.broker.site_commands import NoSite
from offpeak.services.broker.submission import cancel, read_job_state, submission_json
from offpeak.settings.broker import BrokerSettings

sys.path.append(str(Path(__file__).parent))
from cycle_program import MCMF, Stage
from pbs_stand_in import PbsStandIn, pbs_stand_in
from three_sites import GRID, IDLE, broker_job, ledger_in, site_replies

LONG = "#!/bin/sh\n#PBS -l nodes=9:ppn=4 -l walltime=01:00:00\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = ledger_in(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, PbsStandIn]:
    return {name: pbs_stand_in(tmp_path / name) for name in GRID.names}


def keys_at(sites: dict[str, PbsStandIn]) -> list[str]:
    """Return the keys of all jobs that the sites were given, each as often as it was."""
    given = (job.splitlines()[0].removeprefix("OFFPEAK_KEY=") for site in sites.values() for job in site.jobs)
    return sorted(given)


def states(ledger: Ledger, count: int) -> list[str]:
    rows = [ledger.submission(f"k{number}") for number in range(count)]
    return [row.state if row else "none" for row in rows]


def test_jobs_wait_for_the_cycle_and_are_placed_with_a_reason(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(3)
    state = asyncio.run(read_job_state(stage.broker, "k0"))
    assert (state["state"], state["site"], state["said"]) == ("waiting", None, "waits for the next cycle, at most 1 s")
    assert "job" not in state["choice"]
    assert (keys_at(sites), stage.poller.rounds) == ([], 0)
    stage.run()
    assert stage.poller.rounds == 1
    assert keys_at(sites) == ["k0", "k1", "k2"]
    for number in range(3):
        state = asyncio.run(read_job_state(stage.broker, f"k{number}"))
        assert (state["state"], state["at_site"]) == ("taken", "Q")
        assert state["site"] in state["choice"]["reason"]
    stage.run()
    assert (keys_at(sites), stage.poller.rounds) == (["k0", "k1", "k2"], 1)


def test_a_stored_job_is_stored_once_and_needs_a_site(tmp_path: Path, ledger: Ledger) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(1)
    again = asyncio.run(stage.broker.submit(broker_job(), "k0"))
    assert again == ledger.submission("k0")
    with pytest.raises(BadInput, match="another job has it"):
        asyncio.run(stage.broker.submit(broker_job(goal="cost"), "k0"))
    with pytest.raises(NoSite, match="north: 36 cores requested, 32 are the most"):
        asyncio.run(stage.broker.submit(broker_job(LONG), "k1"))
    assert ledger.submission("k1") is None


def test_a_waiting_job_can_be_cancelled(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(2)
    row = asyncio.run(cancel(stage.broker, "k0"))
    assert (row.state, row.message, submission_json(row)["site"]) == ("cancelled", "cancelled by ann", None)
    stage.run()
    assert (keys_at(sites), states(ledger, 2)) == (["k1"], ["cancelled", "taken"])
    assert asyncio.run(stage.broker.submit(broker_job(), "k0")).state == "cancelled"


def test_the_oldest_jobs_go_first_and_sites_take_so_many_in_a_cycle(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    stage = Stage(tmp_path, ledger, settings=replace(MCMF, max_per_cycle=4))
    grid = Grid(tuple(replace(site, max_per_cycle=1) for site in GRID.sites))
    stage.poller.federation = replace(stage.poller.federation, grid=grid)
    stage.store(5)
    stage.run()
    assert {name: len(site.jobs) for name, site in sites.items()} == {"north": 1, "east": 1, "south": 1}
    assert keys_at(sites) == sorted(keys_at(sites))
    assert "k4" not in keys_at(sites)
    waiting = [f"k{number}" for number, state in enumerate(states(ledger, 5)) if state == "waiting"]
    assert len(waiting) == 2
    message = asyncio.run(read_job_state(stage.broker, waiting[0]))["said"]
    assert "have all the jobs that they take in this cycle" in message
    stage.run()
    assert (keys_at(sites), states(ledger, 5)) == (["k0", "k1", "k2", "k3", "k4"], ["taken"] * 5)


@pytest.mark.usefixtures("sites")
def test_turns_go_on_in_the_next_cycle_and_after_a_restart(tmp_path: Path, ledger: Ledger) -> None:
    by_turns = replace(MCMF, policy="round-robin", max_per_cycle=1)
    for _ in range(2):
        stage = Stage(tmp_path, ledger, settings=by_turns)
        stage.store(4)
        stage.run()
        stage.run()
    placed = [ledger.submission(f"k{number}") for number in range(4)]
    assert [row.site for row in placed if row] == ["north", "east", "south", "north"]


def test_a_refused_job_goes_to_another_site_in_the_next_cycle(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    sites["north"].set("refuse", "Unauthorized Request")
    stage = Stage(tmp_path, ledger)
    stage.store(1, goal="co2")
    stage.run()
    state = asyncio.run(read_job_state(stage.broker, "k0"))
    assert (state["state"], state["site"]) == ("waiting", None)
    assert "Unauthorized Request" in state["said"]
    stage.run()
    row = ledger.submission("k0")
    assert row is not None
    assert (row.state, row.answer["misses"]) == ("taken", {"north": "refused it: Unauthorized Request"})


def test_a_job_that_no_site_can_run_any_more_fails_if_all_sites_say_so(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(1)
    known, small = stage.poller.federation, Grid(tuple(replace(site, largest_job_cores=2) for site in GRID.sites))
    stage.poller.federation = replace(known, grid=small, replies=site_replies(north="its agent does not answer"))
    stage.run()
    assert states(ledger, 1) == ["waiting"]
    stage.poller.federation = replace(known, grid=small, replies=site_replies())
    stage.run()
    row = ledger.submission("k0")
    assert row is not None
    assert (row.state, "job" in row.answer) == ("failed", False)
    assert row.message.startswith("no site can run it: north: 4 cores requested, 2 are the most")
    assert keys_at(sites) == []


@pytest.mark.parametrize("lacks", ["waits", "prices"])
def test_a_job_waits_while_the_agents_of_all_sites_know_no_waits_or_prices(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn], lacks: str
) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(1)
    known = stage.poller.federation
    busy = replace(IDLE, at_unix_s=time.time(), idle_cores=0, queued=1)
    if lacks == "waits":
        replies = dict.fromkeys(GRID.names, SiteReply(replace(busy, waits=WaitTable())))
        stage.poller.federation = replace(known, replies=replies)
    else:
        stage.poller.federation = replace(known, grid=Grid(tuple(replace(site, tariff=None) for site in GRID.sites)))
    stage.run()
    assert (states(ledger, 1), keys_at(sites)) == (["waiting"], [])
    stage.poller.federation = replace(known, replies=site_replies())
    stage.run()
    assert (states(ledger, 1), keys_at(sites)) == (["taken"], ["k0"])


def test_a_job_of_another_version_waits_and_holds_up_no_other(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn], caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, ledger)
    stage.store(2)
    row = ledger.submission("k0")
    assert row is not None
    job = row.answer["job"]
    newer = job | {"preferences": job["preferences"] | {"colour": "green"}}
    assert ledger.change_submission(row, replace(row, answer=row.answer | {"job": newer}))
    stage.run()
    assert (states(ledger, 2), keys_at(sites)) == (["waiting", "taken"], ["k1"])
    assert "key k0: waits: another version of offpeak has stored it" in caplog.text


def test_a_silent_site_keeps_only_its_own_jobs(tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]) -> None:
    sites["north"].set("silent")
    sites["north"].set("down")
    stage = Stage(tmp_path, ledger, settings=replace(MCMF, policy="round-robin"))
    stage.store(6)
    stage.run()
    assert states(ledger, 6) == ["tried", "taken", "taken", "waiting", "taken", "taken"]
    sites["north"].mend("down")
    sites["north"].mend("silent")
    stage.run()
    stage.run()
    assert keys_at(sites) == [f"k{number}" for number in range(6)]
    assert states(ledger, 6) == ["taken"] * 6


@pytest.mark.usefixtures("sites")
def test_a_slow_site_holds_a_cycle_no_longer_than_one_time_limit(tmp_path: Path, ledger: Ledger) -> None:
    calls = []

    class Slow:
        async def run(self, *arguments: object, **__: object) -> BatchResult:
            calls.append(arguments)
            return BatchResult(None, "", "no answer in time")

    stage = Stage(tmp_path, ledger, settings=replace(MCMF, policy="round-robin"))
    slow = replace(stage.broker.sites["north"], route=Slow(), submitter=None)
    stage.broker = replace(stage.broker, sites={**stage.broker.sites, "north": slow})
    stage.store(9)
    stage.run()
    # One submission and one look for the job; the other two jobs of the site are not tried.
    assert len(calls) == 2
    assert states(ledger, 9) == ["tried", "taken", "taken"] + ["waiting", "taken", "taken"] * 2


def test_only_a_daemon_of_this_account_and_ledger_places_stored_jobs(tmp_path: Path, ledger: Ledger) -> None:
    settings = BrokerSettings(policy="mcmf")
    with pytest.raises(BadInput, match="it does not run with this ledger"):
        check_daemon(settings, ledger, time.time())
    stage = Stage(tmp_path, ledger)
    stage.run()
    check_daemon(settings, ledger, time.time())
    with pytest.raises(BadInput, match="it does not run with this ledger"):
        check_daemon(settings, ledger, time.time() + 181)
    ledger.remember("placement cycles", f'{{"at_unix_s": {time.time()}, "account": "not-{login_name()}"}}')
    with pytest.raises(BadInput, match=f"it runs as not-{login_name()}"):
        check_daemon(settings, ledger, time.time())


def killed(folder: Path, count: int, moment: str) -> None:
    program = Path(__file__).with_name("cycle_program.py")
    done = subprocess.run([sys.executable, program, folder, str(count), moment], check=False, timeout=600)
    # An alarm while Python ends kills it too: its handlers are gone by then.
    assert done.returncode in (-signal.SIGKILL, -signal.SIGALRM, 0)


@pytest.mark.parametrize("moment", ["stored", "chosen", "before", "after"])
def test_a_kill_at_any_step_loses_and_doubles_no_job(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn], moment: str
) -> None:
    killed(tmp_path, 4, moment)
    assert len(keys_at(sites)) <= 3
    time.sleep(0.5)
    stage = Stage(tmp_path, ledger)
    stage.run()
    stage.run()
    assert (keys_at(sites), states(ledger, 4)) == (["k0", "k1", "k2", "k3"], ["taken"] * 4)


@pytest.mark.nightly
def test_kills_at_random_times_lose_and_double_no_job(
    tmp_path: Path, ledger: Ledger, sites: dict[str, PbsStandIn]
) -> None:
    random_s = random.Random(28)
    for number in range(1, 13):
        killed(tmp_path, 3 * number, f"{random_s.uniform(0.0, 0.6):.3f}")
    time.sleep(0.5)
    stage = Stage(tmp_path, ledger)
    for _ in range(3):
        stage.run()
    assert keys_at(sites) == sorted(f"k{number}" for number in range(36))
    assert states(ledger, 36) == ["taken"] * 36
