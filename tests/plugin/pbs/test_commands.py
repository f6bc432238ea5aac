"""Commands that are missing, refuse, hang, or complain of some jobs only."""

from pathlib import Path

import pytest

from offpeak.plugin.pbs.commands import (
    CannotAskPbs,
    CommandResult,
    PbsCommands,
    PbsIsSilent,
    change_jobs,
    complaints_of,
    one_line,
)

pytestmark = pytest.mark.quick


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_no_command_runs_for_a_while_after_a_time_out(programs: Path) -> None:
    now_s = [0.0]
    program(programs, "qstat", "exec sleep 3600")
    commands = PbsCommands(timeout_s=0.3, clock=lambda: now_s[0])
    with pytest.raises(PbsIsSilent, match=r"qstat: no answer within 0.3 s"):
        commands.query("qstat")
    program(programs, "qstat", "echo well")
    with pytest.raises(PbsIsSilent, match="not run"):
        commands.query("qstat")
    now_s[0] = 31.0
    assert commands.query("qstat") == b"well\n"


def test_the_environment_of_commands(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PBS_QSTAT_OPTS", "-u nobody")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    program(programs, "qstat", 'echo "$TZ $LC_ALL $PBS_QSTAT_OPTS"')
    assert PbsCommands(timeout_s=120).query("qstat") == b"UTC C \n"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "echo 'qstat: cannot connect to server head (errno=111) Connection refused' >&2; exit 111",
            PbsIsSilent,
            "cannot",
        ),
        ("echo 'qstat: Unauthorized Request' >&2; exit 159", CannotAskPbs, "qstat: Unauthorized Request"),
        ("exit 7", CannotAskPbs, "failed with 7 and gave no reason"),
        # An empty or incomplete answer with code 0: only the complaint shows it.
        ("echo 'qstat: PBS is not configured to maintain job history ' >&2", CannotAskPbs, "maintain job history"),
        ("echo 1; echo 'qstat: End of File' >&2", PbsIsSilent, "qstat: End of File"),
    ],
)
def test_command_failures_are_classified(text: str, kind: type[CannotAskPbs], message: str, programs: Path) -> None:
    program(programs, "qstat", text)
    with pytest.raises(kind, match=message) as caught:
        PbsCommands(timeout_s=120).query("qstat")
    assert type(caught.value) is kind
    assert caught.value.hint


@pytest.mark.usefixtures("programs")
def test_a_command_that_is_missing() -> None:
    with pytest.raises(CannotAskPbs, match="qstat: not found on PATH"):
        PbsCommands(timeout_s=120).query("qstat")
    with pytest.raises(CannotAskPbs, match="no-such-sudo: not found"):
        PbsCommands(("no-such-sudo",), timeout_s=120).change("qalter")


def test_complaints_by_job_of_both_dialects(programs: Path) -> None:
    lines = (
        "qalter: Unknown Job Id Error 9.head",
        "qalter: Unauthorized Request  8.head",
        "qalter: Job has finished 7.head",
        "qalter: Cannot modify attribute while job running  6.head",
    )
    found = complaints_of("qalter", CommandResult(b"", lines, 159), ["9.head", "8.head", "7.head", "6.head", "5.head"])
    assert found["8.head"] == "Unauthorized Request"
    assert found["6.head"] == "Cannot modify attribute while job running"
    assert "5.head" not in found
    with pytest.raises(CannotAskPbs, match="invalid option") as caught:
        complaints_of("qalter", CommandResult(b"", ("qalter: invalid option -- 'Z'",), 2), ["1.head"])
    assert caught.value.hint
    # A complaint with code 0 is a failure, too.
    with pytest.raises(CannotAskPbs, match="cannot resolve"):
        complaints_of("qalter", CommandResult(b"", ("qalter: cannot resolve default server host",), 0), ["1.head"])
    assert complaints_of("qalter", CommandResult(b"", ("qalter: Unauthorized Request  8.head",), 0), ["8.head"])
    program(programs, "qalter", "\n".join(f"echo '{line}' >&2" for line in lines) + "\nexit 153")
    jobs = ["9.head", "8.head", "7.head", "6.head"]
    complaints = change_jobs(PbsCommands(timeout_s=120), "qalter", ("-p", "5"), jobs)
    # A job that has ended is no complaint.
    assert set(complaints) == {"8.head", "6.head"}


def test_no_number_is_given_twice(programs: Path) -> None:
    program(programs, "qorder", f'echo "$@" >> {programs}/calls')
    assert change_jobs(PbsCommands(timeout_s=120), "qorder", (), ["1.head", "1.head"]) == {}
    assert (programs / "calls").read_text() == "1.head\n"


def test_many_jobs_are_a_few_commands(programs: Path) -> None:
    program(programs, "qalter", f'echo "$#" >> {programs}/calls')
    jobs = [f"{number}.head" for number in range(201)]
    assert change_jobs(PbsCommands(timeout_s=120), "qalter", ("-p", "5"), jobs) == {}
    assert (programs / "calls").read_text() == "202\n3\n"


def test_texts_that_lists_of_attributes_can_carry() -> None:
    assert one_line('two\nlines, "quoted"') == "two lines; 'quoted'"


@pytest.mark.parametrize(
    "line",
    [
        "qstat: cannot connect to server head (errno=-1)",
        "qstat: cannot connect to server head (errno=15137) could not connect to trqauthd",
    ],
)
def test_the_hint_for_a_user_whose_name_is_not_proved(line: str, programs: Path) -> None:
    program(programs, "qstat", f"echo '{line}' >&2; exit 1")
    with pytest.raises(PbsIsSilent) as caught:
        PbsCommands(timeout_s=120).query("qstat")
    assert "offpeak check" in caught.value.hint
    assert "drop-in" in caught.value.hint
