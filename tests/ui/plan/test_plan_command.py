"""`offpeak plan`: on a scheduler in memory, shown, written as a page, carried out, and refused."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from installed_policy import LATEST_FIRST, install_policy

from benchmarks.local_slurm.processes import wait_until
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.port import Ranking
from offpeak.process import exclusive_lock
from offpeak.services.agent import site_context as parts
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.ui.command import run

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]
HOUR_S = 3600
CONFIG = """
[agent]
state_folder = "{folder}"
socket = "{folder}/agent.sock"
mode = "{mode}"
queue = "{queue}"
allow_own_policies = {allowed}
[ledger]
url = "sqlite:///{folder}/ledger.sqlite"
[power]
classes = ["hot=400W", "cool=100W"]
[prices]
tariff = "on=90EUR/MWh,off=30EUR/MWh,hours={dear},zone=UTC"
[scheduling]
priority_band = 100
"""
EVENT = '[[event]]\nbegin = {begin}\nend = {end}\ncap_w = 300\nreason = "the <grid> asks"\n'


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> SimulatedScheduler:
    """A node that is taken, and two jobs that wait for it."""
    now_s = int(time.time()) // HOUR_S * HOUR_S
    made = SimulatedScheduler(SimulatedCluster({"n1": SimNode("n1", 8)}), clock=lambda: now_s, ranking=Ranking.VALUE)
    for at, name in enumerate(("first", "hot", "cool")):
        job = SimJob(0, name, "ann", "batch", (Chunk(1, 8),), 9000.0, now_s, HOUR_S, whole_nodes=True)
        made.cluster.submit(job).priority = 1000 - at
        made.view()
    monkeypatch.setattr(parts, "scheduler_of", lambda _settings: made)
    return made


@pytest.fixture
def offpeak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offpeak:
    """The command within this process, on a clock of UTC."""
    monkeypatch.setenv("TZ", "UTC")

    def called(
        *arguments: str, mode: str = "advise", queue: str = "greedy", allowed: bool = False, more: str = ""
    ) -> Done:
        config = tmp_path / "offpeak.toml"
        from_, until = (time.strftime("%H:00", time.gmtime(time.time() + hours * HOUR_S)) for hours in (0, 2))
        own = {"queue": queue, "allowed": str(allowed).lower()}
        config.write_text(CONFIG.format(folder=tmp_path, mode=mode, dear=f"{from_}-{until}", **own) + more)
        capsys.readouterr()
        code = run(["plan", "--config", str(config), *arguments])
        printed = capsys.readouterr()
        return Done(arguments, code, printed.out, printed.err)

    return called


def event_file(folder: Path, now_s: int) -> str:
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s + hours * HOUR_S)) for hours in (1, 3))
    file = folder / "events.toml"
    file.write_text(EVENT.format(begin=begin, end=end))
    return str(file)


def test_the_table_says_who_starts_when_and_what_it_costs(scheduler: SimulatedScheduler, offpeak: Offpeak) -> None:
    done = offpeak()
    assert done.returncode == 0, done.stderr
    head, first, second, *rest = done.stdout.splitlines()
    assert head.split()[:6] == ["job", "user", "partition", "nodes", "power", "starts"]
    # The frugal one runs while electricity is dear.
    assert [line.split()[0] for line in (first, second)] == ["3", "2"]
    assert rest[1].startswith("plan   2 jobs to start, 1 running, 0 left as they are;")
    assert re.search(r"^cost   \d+\.\d\d EUR for energy and cooling, PUE 1\.00 now$", done.stdout, re.MULTILINE)
    assert scheduler.view().jobs[1].priority == 999


def test_as_json_with_cooling_and_a_cap(scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path) -> None:
    now_s = scheduler.view().at_s
    options = ("--json", "--facility", "air", "--outside", "25", "--events", event_file(tmp_path, now_s))
    plan = json.loads(offpeak(*options).stdout)
    starts = {job["job_id"]: (job["start_s"] - now_s) / HOUR_S for job in plan["jobs"]}
    assert starts["3"] == 1
    assert starts["2"] >= 3
    hot = next(job for job in plan["jobs"] if job["job_id"] == "2")
    assert hot["begin_s"] - now_s == 3 * HOUR_S
    assert "the <grid> asks" in hot["why"]
    assert plan["violations"] == []
    assert plan["course"][0]["temperature_c"] == 25


def test_of_a_day_only_its_starts_are_shown(scheduler: SimulatedScheduler, offpeak: Offpeak) -> None:
    shown = {day: offpeak("--day", day).stdout.partition("\n\n")[0] for day in ("today", "tomorrow")}
    of_day = time.strftime("%j", time.gmtime(scheduler.view().at_s + HOUR_S)) == time.strftime(
        "%j", time.gmtime(scheduler.view().at_s)
    )
    assert ("no job is to start today" in shown["today"]) is not of_day


def test_the_page_loads_nothing_and_takes_no_text_for_markup(
    scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path
) -> None:
    page = tmp_path / "plan.html"
    done = offpeak("--report", str(page), "--events", event_file(tmp_path, scheduler.view().at_s))
    assert done.returncode == 0
    assert done.stdout.endswith(f"\nwritten: {page}\n")
    text = page.read_text()
    assert "<h2>Jobs on nodes</h2>" in text
    assert "Content-Security-Policy" in text
    assert "<grid>" not in text


@pytest.mark.usefixtures("scheduler")
def test_plan_command_reports_a_silent_agent_that_carries_out_plans(offpeak: Offpeak, tmp_path: Path) -> None:
    remark = f"this plan was computed here and is not the agent's: no agent answers at {tmp_path}/agent.sock: "
    assert f"- {remark}" in offpeak(queue="plan").stdout
    assert [
        problem.startswith(remark) for problem in json.loads(offpeak("--json", queue="plan").stdout)["troubles"]
    ] == [True]
    page = tmp_path / "plan.html"
    offpeak("--report", str(page), queue="plan")
    assert "this plan was computed here" in page.read_text()
    assert "made here and now" not in offpeak().stdout


def test_applied_the_queue_stands_as_planned(scheduler: SimulatedScheduler, offpeak: Offpeak) -> None:
    done = offpeak("--apply")
    assert done.returncode == 0, done.stderr
    assert "done: 2 jobs in another order, 0 begin times; `offpeak agent --restore` undoes it" in done.stdout
    jobs = {job.job_id: job for job in scheduler.view().jobs}
    assert jobs["3"].priority > jobs["2"].priority


def test_applied_under_a_cap_jobs_have_begin_times(
    scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path
) -> None:
    now_s = scheduler.view().at_s
    assert "2 begin times" in offpeak("--apply", "--events", event_file(tmp_path, now_s)).stdout
    jobs = {job.job_id: job for job in scheduler.view().jobs}
    assert (jobs["2"].begin_s, jobs["3"].begin_s) == (now_s + 3 * HOUR_S, now_s + HOUR_S)


def test_in_shadow_mode_it_is_only_recorded(scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path) -> None:
    before = scheduler.view().jobs
    done = offpeak("--apply", "--events", event_file(tmp_path, scheduler.view().at_s), mode="shadow")
    assert "mode shadow: recorded, not done" in done.stdout
    assert scheduler.view().jobs == before


def test_while_an_agent_runs_the_error_names_how_the_agent_plans(
    scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path
) -> None:
    with exclusive_lock(tmp_path):
        done = offpeak("--apply")
    assert done.returncode == 1
    assert 'queue = "plan" below [agent]' in done.stderr
    assert scheduler.view().jobs[1].priority == 999


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--day", "yesterday"), "--day yesterday: is neither today nor tomorrow"),
        (("--facility", "airy"), "'airy' is not a facility"),
        (("--events", "/no/such/file"), "/no/such/file"),
        (("--report", "/no/such/folder/plan.html"), "/no/such/folder/plan.html"),
        (("--outside", "-100"), "out of range"),
    ],
)
@pytest.mark.usefixtures("scheduler")
def test_bad_input_is_one_line(offpeak: Offpeak, arguments: tuple[str, ...], error: str) -> None:
    done = offpeak(*arguments)
    assert done.returncode == 2
    assert error in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1].startswith("  hint: ")


@pytest.fixture
def latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An own policy that starts the last submitted job first."""
    monkeypatch.syspath_prepend(tmp_path)
    install_policy(tmp_path, "latest_of_plan", "latest = latest_of_plan:order", LATEST_FIRST)
    return "latest"


@pytest.mark.usefixtures("scheduler")
def test_the_plan_has_the_order_of_an_own_policy(offpeak: Offpeak, latest: str) -> None:
    plan = json.loads(offpeak("--json", queue=latest).stdout)
    starts = {job["job_id"]: job["start_s"] for job in plan["jobs"]}
    assert sorted(starts, key=lambda job: starts[job]) == sorted(starts, key=int, reverse=True)
    assert "the policy latest orders the jobs of a window, and no other order is tried" in plan["remarks"]


def test_the_order_of_an_own_policy_is_applied_only_where_it_is_allowed(
    offpeak: Offpeak, latest: str, scheduler: SimulatedScheduler
) -> None:
    refused = offpeak("--apply", queue=latest)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("offpeak: error: agent.queue: the order of the own policy latest is only recorded")
    assert "hint: set allow_own_policies = true" in refused.stderr
    before = [job.priority for job in scheduler.view().jobs]
    applied = offpeak("--apply", "--json", queue=latest, allowed=True)
    assert applied.returncode == 0, applied.stderr
    assert [job.priority for job in scheduler.view().jobs] != before


def test_pv_and_battery_are_planned_with_the_jobs(
    scheduler: SimulatedScheduler, offpeak: Offpeak, tmp_path: Path
) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(scheduler.view().at_s))
    (tmp_path / "pv.csv").write_text("kw\n" + "0.05\n" * 120)
    battery = '[battery]\ncapacity = "2kWh"\ncharge = "1kW"\ndischarge = "1kW"\nefficiency = 0.9\n'
    devices = tmp_path / "devices.toml"
    devices.write_text(f'[pv]\npower = "pv.csv,start={day},step=1h,zone=UTC"\n{battery}')
    done = offpeak("--devices", str(devices))
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^energy the battery .*charges .* kWh from .*; PV [\d.]+ kWh, of which", done.stdout, re.MULTILINE
    )
    bill = float(re.search(r"^bill   (\d+\.\d\d) EUR with PV and battery", done.stdout, re.MULTILINE)[1])
    document = json.loads(offpeak("--devices", str(devices), "--json").stdout)
    assert document["devices"]["cost"] == pytest.approx(bill, abs=0.02)
    assert document["devices"]["cost"] < document["cost"]
    columns = [name for name, values in document["devices"].items() if name not in ("cost", "edge_s")]
    assert {len(document["devices"][name]) for name in columns} == {len(document["devices"]["edge_s"]) - 1}


@pytest.mark.usefixtures("scheduler")
def test_a_plan_with_a_battery_is_not_said_to_be_the_agents(offpeak: Offpeak, tmp_path: Path) -> None:
    devices = tmp_path / "devices.toml"
    devices.write_text('[battery]\ncapacity = "2kWh"\ncharge = "1kW"\ndischarge = "1kW"\nefficiency = 0.9\n')
    note = "- this plan differs from the agent's, which does not know PV or battery\n"
    assert note in offpeak("--devices", str(devices), queue="plan").stdout
    assert note not in offpeak("--devices", str(devices)).stdout


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(
    ("case", "caps", "others"),
    [
        ("openadr-51-events", ["500 W"] + 50 * ["90.00 kW"], None),
        ("openadr-curve", ["1,000 W"], None),
        ("openadr-now-date", ["500 W", "1,000 W"], None),
        ("openadr-other-ven", [], "OpenADR: 1 event for others"),
    ],
)
def test_events_of_a_server_are_caps_as_the_case_says(
    offpeak: Offpeak,
    tmp_path: Path,
    shared: Path,
    case: str,
    caps: list[str],
    others: str | None,
) -> None:
    folder = shared / "cases" / case
    if not folder.is_dir():
        pytest.skip(f"needs shared/cases/{case}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, folder / "vtn.py", folder / "events.py", str(port), "50"])
    try:
        wait_until(lambda: listens(port), what="the server of the case", log=tmp_path)
        client = '[plan]\nopenadr_client = "hpc-site-1"\n'
        done = offpeak("--openadr", f"http://127.0.0.1:{port}/openadr3/3.0.1", more=client)
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^cap +(.+?) from", done.stdout, re.MULTILINE) == caps
    assert ("for others" in done.stdout) is (others is not None)
    assert (others or "") in done.stdout


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
