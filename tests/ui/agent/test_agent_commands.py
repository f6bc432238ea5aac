"""`offpeak status`, `queue`, `why`, `history` and `trial`, with an agent that answers and with none."""

import json
import os
import pwd
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from agent_socket import AT_S, PUBLISHED, AgentSocket, agent_socket
from open_folder import open_folder

from offpeak.door.effect import Effect, Outcome, Refusal
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, JobUse, NodeStateRecord
from offpeak.model.orders import NodeChange, NodeOrder, QueueChange
from offpeak.services.accounts.job_bills import JobBill
from offpeak.services.accounts.trials import RESULTS, STORED_RESULTS, TrialEffect, TrialResult, draw_blocks
from offpeak.services.agent.restore import RestoreResult
from offpeak.settings import file as settings_file
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.table import Settings
from offpeak.ui.command import run

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]
DAY = ("-S", "2026-11-01", "-E", "2026-11-02")
START_S = 1_793_487_600
"""2026-11-01 00:00 in Berlin."""


@pytest.fixture
def offpeak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offpeak:
    """The command within this process, with the settings of a site in Berlin."""
    config = tmp_path / "offpeak.toml"
    ledger = tmp_path / "ledger.sqlite"
    config.write_text(f'[agent]\nsocket = "{tmp_path}/run/agent.sock"\n[ledger]\nurl = "sqlite:///{ledger}"\n')
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("OFFPEAK_CONFIG", str(config))

    def called(*arguments: str) -> Done:
        capsys.readouterr()
        code = run(list(arguments))
        printed = capsys.readouterr()
        return Done(arguments, code, printed.out, printed.err)

    return called


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSocket]:
    with agent_socket(tmp_path / "run" / "agent.sock") as agent:
        yield agent


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A ledger of one morning."""
    file = tmp_path / "ledger.sqlite"
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{file}"))
    ledger.write_decisions(
        [
            DecisionRecord(
                START_S + 100.0, "job 1841", "moved back", "412 W a node against 180 W", (("power_w", 412.0),)
            ),
            DecisionRecord(START_S + 300.0, "n2", "sleep", "idle for 20 min"),
        ]
    )
    sleep = Effect("n2", NodeOrder.SOFT_OFF, "offpeak", "idle for 20 min")
    number = ledger.write_intent(sleep, START_S + 301.0)
    ledger.write_outcome(number, Outcome("done", "accepted"), START_S + 302.0)
    ledger.write_refusal(
        Effect("queue", QueueChange.RANK, "offpeak", "2 jobs"), Refusal("mode", "shadow"), START_S + 400.0
    )
    ledger.write_states(
        [NodeStateRecord("n1", START_S, "on", "on", "x"), NodeStateRecord("n2", START_S + 350.0, "off", "off", "x")]
    )
    assert ledger.close() == 0
    return file


def lines(done: Done) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.usefixtures("agent")
def test_an_agent_that_answers(offpeak: Offpeak) -> None:
    assert lines(offpeak("status"))[0].startswith("test (slurm 22.05.8): mode active, looked ")
    assert json.loads(offpeak("status", "--json").stdout)["mode"] == "active"
    assert lines(offpeak("why", "1841"))[1].startswith("why        price: offpeak has put it back")
    printed = json.loads(offpeak("why", "1841", "--json").stdout)
    assert (printed["job_id"], printed["latest_start"], printed["price"]["on_peak"]) == (
        "1841",
        "2026-11-02T09:00:00+01:00",
        True,
    )


@pytest.mark.usefixtures("agent")
def test_the_queue_and_parts_of_it(offpeak: Offpeak) -> None:
    def ids(*options: str) -> list[str]:
        return [line.split()[0] for line in lines(offpeak("queue", *options))[1:]]

    assert ids() == ["1841", "1846", "1850"]
    assert ids("--user", "ann") == ["1841"]
    assert ids("--partition", "long") == ["1850"]
    assert lines(offpeak("queue", "--user", "carol")) == ["no such job"]
    assert [job["job_id"] for job in json.loads(offpeak("queue", "--json", "-u", "bob").stdout)] == ["1846"]


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["why", "9"], 2, "job 9: the agent does not know it"),
        (["why", "abc"], 2, "'abc' is not a job ID"),
        (["why", "1841;reboot"], 2, "'1841;reboot' is not a job ID"),
        (["why"], 2, "Missing argument 'JOBID'"),
        (["history", "-S", "someday"], 2, "'someday' is not a time"),
        (["history", "--subject", "n[1-"], 2, "'n[1-' is not a node set"),
        (["agent", "--mode", "bold"], 2, "--mode: agent.mode"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(offpeak: Offpeak, arguments: list[str], code: int, error: str) -> None:
    done = offpeak(*arguments)
    assert done.returncode == code
    assert done.stderr.startswith(f"offpeak: error: {error}")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["offpeak", "  hint"]


def test_the_agent_gets_its_settings_and_reads_them_again(
    offpeak: Offpeak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = []

    def run_agent(settings: Settings, reread: Callable[[], Settings]) -> int:
        config = tmp_path / "offpeak.toml"
        config.write_text(config.read_text().replace("[agent]", '[agent]\ncycle = "90s"\nmode = "active"'))
        cycles.extend((each.agent.mode, each.agent.cycle_s) for each in (settings, reread()))
        return 3

    monkeypatch.setattr("offpeak.services.agent.service.run_agent", run_agent)
    monkeypatch.setattr(
        "offpeak.services.agent.restore.run_restore",
        lambda settings: RestoreResult(("n1", "n3", "n2"), (f"job 7 in {settings.agent.mode}",)),
    )
    assert offpeak("agent", "--mode", "advise").returncode == 3
    assert cycles == [("advise", 30), ("advise", 90)]
    restored = offpeak("agent", "--restore", "--mode", "shadow")
    assert (restored.returncode, restored.stderr) == (1, "not restored: job 7 in shadow\n")
    assert restored.stdout == "open to jobs again: n[1-3]\nnot everything was restored\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_other_peoples_jobs() -> None:
    # What the command sends; itself it may stand where only root may look.
    ask = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
    ask += "s.sendall(sys.argv[2].encode()+b'\\n')\nprint(s.makefile().read())"
    with open_folder() as folder, agent_socket(folder / "agent.sock") as agent:

        def as_nobody(**request: str) -> dict[str, Any]:
            arguments = ["/usr/bin/python3", "-c", ask, str(agent.path), json.dumps(request)]
            command = ["setpriv", "--reuid=65534", "--clear-groups", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return dict(json.loads(done.stdout))

        assert as_nobody(ask="why", job="1841")["error"] == "job 1841 is another user's"
        assert [job["user"] for job in as_nobody(ask="queue")["published"]["jobs"]] == ["nobody"]


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_a_user_without_any_rights_asks_of_the_own_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)
    with open_folder() as folder, agent_socket(folder / "agent.sock") as agent:
        (folder / "etc").mkdir(mode=0o700)
        (folder / "etc" / "offpeak.toml").write_text("no settings")
        system_file = folder / "etc" / "offpeak.toml"
        monkeypatch.setattr(settings_file.users_settings_path, "__kwdefaults__", {"system_file": system_file})
        output = folder / "output"
        output.touch()
        output.chmod(0o666)
        codes = [as_user("nobody", output, "why", job, "--socket", str(agent.path)) for job in ("1850", "1841")]
        text = output.read_text()
    assert codes == [0, 2]
    assert text.startswith("job 1850 of nobody, long, 1 node: PENDING\n")
    assert "\noffpeak: error: job 1841 is another user's\n" in text


def as_user(name: str, output: Path, *arguments: str) -> int:
    """Run the command in a child that is that user, both its outputs behind what is in the file; its exit code."""
    import offpeak.ui.agent.status  # noqa: F401  # the user may not be able to read this folder

    child = os.fork()
    if child == 0:
        user = pwd.getpwnam(name)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        sys.stdout = sys.stderr = output.open("a")
        code = run(list(arguments))
        sys.stdout.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("book")
def test_without_an_agent_the_ledger_says_what_it_knows(offpeak: Offpeak, tmp_path: Path) -> None:
    silent = [
        f"offpeak: error: no agent answers at {tmp_path}/run/agent.sock: No such file or directory;"
        " its last record is of 2026-11-01T00:06:40+01:00",
        "  hint: is it running? `systemctl status offpeak-agent`; --socket names another",
    ]
    done = offpeak("status")
    assert (done.returncode, done.stdout) == (1, "nodes, as last recorded: 1 off, 1 on\n")
    assert done.stderr.splitlines() == silent
    assert offpeak("queue").stderr.splitlines() == silent
    assert offpeak("why", "77").stdout == ""
    assert json.loads(offpeak("status", "--json").stdout)["nodes"] == [["off", 1], ["on", 1]]


def test_command_why_prints_the_last_decision(offpeak: Offpeak, tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    ledger.write_decisions(
        [DecisionRecord(time.time() - at, "job 7", decided, "dear hours") for at, decided in ((9, "x"), (5, "y"))]
    )
    assert ledger.close() == 0
    done = offpeak("why", "7")
    assert done.returncode == 1
    assert done.stdout.startswith("job 7, as last recorded 2")
    assert done.stdout.endswith(": y: dear hours\n")
    assert [load["decided"] for load in json.loads(offpeak("why", "7", "--json").stdout)] == ["y", "x"]


def test_neither_agent_nor_ledger(offpeak: Offpeak) -> None:
    for arguments in (["status"], ["queue"], ["why", "7"]):
        done = offpeak(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("offpeak: error: no agent answers at ")
    assert "there is no ledger" in offpeak("history").stderr


@pytest.mark.usefixtures("book")
def test_history_newest_first(offpeak: Offpeak, golden: Callable[[str, str], None]) -> None:
    golden("history.txt", "".join(f"{line.rstrip()}\n" for line in lines(offpeak("history", *DAY))))
    events = json.loads(offpeak("history", *DAY, "--json").stdout)
    assert [event["subject"] for event in events] == ["queue", "n2", "n2", "job 1841"]
    assert (events[3]["at"], events[3]["inputs"]) == ("2026-11-01T00:01:40+01:00", [["power_w", 412.0]])


@pytest.mark.usefixtures("book")
def test_history_of_a_subject(offpeak: Offpeak) -> None:
    def count(subject: str) -> int:
        return len(json.loads(offpeak("history", *DAY, "--json", "--subject", subject).stdout))

    assert [count(subject) for subject in ("job 1841", "n[1-2]", "queue", "n9")] == [1, 2, 1, 0]
    (far,) = lines(offpeak("history", "--since", "2026-10-01", "--endtime", "2026-10-02"))
    assert far.endswith("; the ledger's latest entry is of 2026-11-01 00:06:40: --since 2026-11-01")
    nothing = lines(offpeak("history", *DAY, "--subject", "n9"))
    assert nothing == ["nothing from 2026-11-01 00:00:00 to 2026-11-02 00:00:00"]


def test_an_answer_that_makes_no_sense(offpeak: Offpeak, agent: AgentSocket) -> None:
    agent.published = None
    assert "just started" in offpeak("status").stderr
    agent.published = PUBLISHED
    assert offpeak("status").returncode == 0


def test_the_command_is_quick_to_say_its_version(environment: dict[str, str]) -> None:
    code = (
        "import sys, offpeak.ui.command; print([m for m in ('pydantic', 'sqlalchemy', 'pyghmi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_queue_of_10_000_jobs_is_quick(agent: AgentSocket, environment: dict[str, str]) -> None:
    """It takes below 1 s of processor time; a third of that was imports that it does not need."""
    long = tuple(replace(PUBLISHED.jobs[0], job_id=str(at), why="behind 3: on-peak; " * 6) for at in range(10_000))
    agent.published = replace(PUBLISHED, jobs=long)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = (
        f"import sys, offpeak.ui.command; offpeak.ui.command.run(['queue', '--socket', {str(agent.path)!r}]); "
        "sys.exit(str([m for m in ('numpy', 'sqlalchemy', 'requests') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stderr == "[]\n"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(done.stdout.splitlines()) == 1 + len(long)
    assert after.ru_utime - before.ru_utime < 3.0


ENDED = JobBill(
    *("1700", "ann", "physics", "batch", "n[1-2]", START_S, START_S + 3600.0, START_S + 7200.0),
    *(1.42 * 3.6e6, 0.31, "EUR", 0.40, "measured"),
    carbon_g=568.0,
)


def test_why_of_an_ended_job_is_its_bill(offpeak: Offpeak, agent: AgentSocket) -> None:
    agent.bills = [ENDED]
    done = offpeak("why", "1700")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "job 1700 of ann, batch, n[1-2]: ended 2026-11-01 02:00",
        "ran        1 h after 1 h of waiting",
        "this job   1.42 kWh, 0.31 EUR, 0.57 kg CO2, 0.09 EUR less than at its submission",
        "basis      measured",
    ]
    (of_json,) = json.loads(offpeak("why", "1700", "--json").stdout)
    assert of_json["saved"] == pytest.approx(0.09)
    assert "the agent does not know it" in offpeak("why", "1701").stderr


def test_jobs_that_ended_with_their_sum(offpeak: Offpeak, agent: AgentSocket) -> None:
    unknown = replace(ENDED, job="1699", cost=None, at_submission_cost=None, submitted_unix_s=None)
    agent.bills = [ENDED, replace(unknown, carbon_g=None, carbon_why="no energy is known")]
    done = offpeak("jobs", *DAY)
    header, first, second, _, total, *why = done.stdout.splitlines()
    assert header.split()[:5] == ["job", "user", "account", "nodes", "ended"]
    assert "tier" not in header
    assert first.split()[-5:] == ["0.31", "EUR", "0.57", "0.09", "EUR"]
    assert second.split()[-6:] == 3 * ["not", "known"]
    text = (
        "2 jobs: 2.84 kWh, 0.31 EUR, 0.57 kg CO2, 0.09 EUR less than at their submission; 1 job of unknown difference"
    )
    assert total == text
    assert why == [
        "- cost of 1 job not known: no energy, no price, or prices in two currencies",
        "- CO2 of 1 job not known: no energy is known",
    ]
    assert agent.queries[-1].span.from_unix_s == START_S
    assert offpeak("jobs", "--mine").returncode == 0
    assert agent.queries[-1].user == pwd.getpwuid(os.geteuid()).pw_name


def test_the_jobs_of_a_month_and_what_their_tiers_saved(offpeak: Offpeak, agent: AgentSocket) -> None:
    delayed = replace(ENDED, tier="T1", baseline_unix_s=START_S, shifted_j=3.6e6, tier_saved=0.2, credit=0.05)
    delayed = replace(delayed, expected_saving=0.31)
    agent.bills = [delayed, replace(delayed, job="1699", tier_saved=None, credit=None, expected_saving=None)]
    done = offpeak("jobs", "--month", "2025-10")
    header, first, second, _, total, why = done.stdout.splitlines()
    assert header.split()[-5:] == ["tier", "expected", "tier", "saved", "credit"]
    assert first.split()[-7:] == ["T1", "0.31", "EUR", "0.20", "EUR", "0.05", "EUR"]
    assert second.split()[-3:] == ["T1", "not", "known"]
    assert total.endswith("; the tiers of 2 jobs saved 0.20 EUR, 0.05 EUR credited")
    assert why.startswith("- saving by the tier of 1 job not known: no energy, no price")
    # The clock goes back on 26 October: the month has an hour more.
    berlin = ZoneInfo("Europe/Berlin")
    span = agent.queries[-1].span
    assert span.from_unix_s == datetime(2025, 10, 1, tzinfo=berlin).timestamp()
    assert span.until_unix_s - span.from_unix_s == (31 * 24 + 1) * 3600
    (row, _) = json.loads(offpeak("jobs", "--month", "2025-10", "--json").stdout)
    assert (row["carbon_g"], row["tier_saved"], row["credit"]) == (568.0, 0.2, 0.05)
    refused = offpeak("jobs", "--month", "2025-10", "--since", "2025-10-02")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--month excludes --since" in refused.stderr
    assert "is not a month" in offpeak("jobs", "--month", "October").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_a_user_without_any_rights_sees_the_own_jobs_of_a_month(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent reads a ledger that only it may read; the user may read neither that nor the site's settings."""
    monkeypatch.delenv("OFFPEAK_CONFIG", raising=False)
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir(mode=0o700)
        (closed / "offpeak.toml").write_text("no settings")
        system_file = {"system_file": closed / "offpeak.toml"}
        monkeypatch.setattr(settings_file.users_settings_path, "__kwdefaults__", system_file)
        url = f"sqlite:///{closed}/ledger.sqlite"
        ledger = Ledger(LedgerSettings(url=url))
        ledger.ready()
        for job, user in (("1850", "nobody"), ("1841", "ann")):
            ledger.write_jobs([JobUse(job, AT_S, AT_S + 60, user, "a", "b", "n1", 3.6e6, 0.1, "EUR", 400.0)])
        ledger.close()
        outputs = []
        for file in ("out", "silent"):
            (folder / file).touch()
            (folder / file).chmod(0o666)
            outputs.append(folder / file)
        arguments = ("jobs", "--month", "2026-11", "--ledger", url, "--socket", str(folder / "agent.sock"))
        silent = as_user("nobody", outputs[1], *arguments)
        with agent_socket(folder / "agent.sock") as agent:
            agent.ledger_url = url
            code = as_user("nobody", outputs[0], *arguments)
        shown, hidden = (each.read_text() for each in outputs)
    assert (code, silent) == (0, 1)
    assert shown.splitlines()[-1].startswith("1 job: 1.00 kWh, 0.10 EUR, 0.40 kg CO2, ")
    assert "ann" not in shown
    assert hidden.startswith("offpeak: error: no agent answers at ")


def test_trial_shows_the_drawn_days_what_is_on_now_and_the_result(offpeak: Offpeak, tmp_path: Path) -> None:
    nothing = offpeak("ledger", "trial")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    ledger.ready()
    without = offpeak("ledger", "trial")
    assert without.returncode == 2
    assert "no trial of on/off days" in without.stderr
    first: date = datetime.now(UTC).date() - timedelta(days=1)
    settings = AgentSettings(trial="winter", trial_lever="both", trial_days=14)
    blocks = ledger.draw_trial(draw_blocks(settings, "5eed", first=first, zone=UTC, drawn_unix_s=START_S))
    assert ledger.draw_trial(draw_blocks(settings, "other", first=first, zone=UTC, drawn_unix_s=1.0)) == blocks
    effect = TrialEffect(5.84, -0.1, 7.6, ("load",), 90)
    results = (
        TrialResult("winter", "sleep", START_S, 60, 42, {"nodes were not measured": 18}, effect, modelled_percent=6.1),
        TrialResult("winter", "order", START_S, 60, 3, {}, why="3 on and 0 off: a result needs 7 of each"),
    )
    ledger.remember(f"{RESULTS}winter", STORED_RESULTS.dump_json(results).decode())
    ledger.write_jobs([JobUse("7", START_S, START_S + 60, "ann", "a", "b", "n1", 3.6e6, None, "")])
    ledger.close()
    shown = offpeak("ledger", "trial")
    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert lines[0].startswith("trial winter: ")
    assert lines[0].endswith("drawn 2026-11-01 00:00:00, seed 5eed")
    assert [line.split(" is ")[0] for line in lines[1:3]] == ["now: order", "now: sleep"]
    assert lines[3:6] == [
        "sleep: measured by on/off days: 5.8 (-0.1 to 7.6) % of energy, 42 of 60 blocks, adjusted for load, not for "
        "weather; by the model 6.1 %; this does not prove a saving: about 90 blocks would",
        "- 18 blocks left out: nodes were not measured",
        "order: not measured yet, 3 of 60 blocks: 3 on and 0 off: a result needs 7 of each",
    ]
    assert len(lines) == 7 + 14
    month = datetime.fromtimestamp(START_S, UTC).astimezone(ZoneInfo("Europe/Berlin"))
    report = offpeak("report", "--month", f"{month:%Y-%m}").stdout
    assert "Trial winter, lever sleep: measured by on/off days: 5.8 (-0.1 to 7.6) % of energy" in report
    answer = json.loads(offpeak("ledger", "trial", "--json").stdout)
    assert [block["is_on"] for block in answer["blocks"]] == [block.is_on for block in blocks]
    assert answer["results"][0]["effect"]["saving_percent"] == 5.84
    assert answer["results"][0]["text"] in lines[3]


def test_the_steps_of_a_sleep_are_one_row(offpeak: Offpeak, tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    idle, sleeps = "idle for 20 min", "it is off: the scheduler must know"
    steps = (("sleeps", "close", idle), ("is put to sleep", "soft_off", idle))
    for at, (decided, order, why) in enumerate((*steps, ("is counted as powered down", "power_down", sleeps))):
        ledger.write_decisions([DecisionRecord(START_S + 60.0 * at, "n1", decided, why)])
        number = ledger.write_intent(
            Effect("n1", NodeOrder(order) if order == "soft_off" else NodeChange(order), "offpeak", why),
            START_S + 60.0 * at + 5,
        )
        ledger.write_outcome(number, Outcome("done", "accepted"), START_S + 60.0 * at + 6)
    ledger.write_decisions([DecisionRecord(START_S + 7200.0, "n1", "is woken", "2 jobs wait")])
    number = ledger.write_intent(Effect("n1", NodeOrder.ON, "offpeak", "2 jobs wait"), START_S + 7201.0)
    ledger.write_outcome(number, Outcome("failed", "no answer"), START_S + 7202.0)
    assert ledger.close() == 0
    head, wake, sleep = lines(offpeak("history", *DAY))
    assert head.startswith("time ")
    assert " ".join(sleep.split()[2:]) == "n1 sleeps offpeak done, 6 steps idle for 20 min"
    assert "failed, 2 steps" in wake
    assert wake.endswith("2 jobs wait; on: 2 jobs wait; no answer")
    assert len(lines(offpeak("history", *DAY, "--steps"))) == 1 + 8
    assert len(json.loads(offpeak("history", *DAY, "--json").stdout)) == 8
