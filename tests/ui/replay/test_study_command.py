"""`offpeak study` as an operator runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from offpeak.sim_backend.traces.swf.write import write_swf
from offpeak.ui.command import run
from offpeak_studies.workloads.generate import lublin_jobs

COMMAND = Path(sys.executable).with_name("offpeak")
ARGUMENTS = ("study", "dynamic-pricing", "--logs", "logs", "--out", "out")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a folder of one small log."""
    (tmp_path / "logs").mkdir()
    jobs = lublin_jobs(60, machine_size=16, seed=1, load=0.8)
    write_swf(jobs, tmp_path / "logs" / "SDSC-BLUE.swf", processors=16, unix_start_s=None, zone=None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_prints_tables_and_writes_them(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "dynamic-pricing", "--logs", "logs", "--replays", "1", "--processes", "1"]) == 0
    printed, errors = capfd.readouterr()
    assert errors == ""
    assert printed.splitlines()[-1].startswith("written to dynamic-pricing: study.html, study.md")
    assert "Cumulative changes: SDSC-BLUE" in printed
    assert "The paper has 4.33 and 3.16 on SDSC-Blue." in printed
    written = {path.name for path in (site / "dynamic-pricing").iterdir()}
    assert {"study.html", "study.md", "ladder.svg", "results.jsonl", "paper.csv", "logs.csv"} <= written


def test_goes_on_where_it_was_stopped(
    site: Path, environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    often = [*ARGUMENTS, "--replays", "40", "--processes", "2"]
    # A group of its own, which the signal reaches as a whole, as Ctrl-C does.
    study = subprocess.Popen([COMMAND, *often], env=environment, stderr=subprocess.PIPE, start_new_session=True)
    journal = site / "out" / "results.jsonl"
    while study.poll() is None and lines_of(journal) < 20:
        time.sleep(0.02)
    os.killpg(study.pid, signal.SIGINT)
    errors = study.communicate()[1].decode()
    assert (study.returncode, errors) == (130, "offpeak: interrupted\n")
    kept = set(journal.read_text().splitlines()[:20])
    assert run([*ARGUMENTS, "--replays", "1", "--processes", "1"]) == 0
    assert "Cumulative changes" in capfd.readouterr().out
    assert kept <= set(journal.read_text().splitlines())


def lines_of(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        ("study dynamic-prising", 2, "unknown study 'dynamic-prising'", "did you mean dynamic-pricing?"),
        ("study dynamic-pricing --logs absent", 2, "absent: cannot be read: No such file", "--logs takes a folder"),
        ("study dynamic-pricing --logs .", 2, ".: no logs in it", "logs end in .swf or .swf.gz"),
        ("study dynamic-pricing --out /proc/study", 1, "/proc/study: cannot be made", "name a folder that you may"),
        ("study dynamic-pricing --out damaged", 2, "damaged/results.jsonl:1: is no result of a study", "delete that"),
        ("study dynamic-pricing --replays 0", 2, "Invalid value for '--replays'", "offpeak study --help"),
        (
            "study energy-carbon",
            2,
            "the study energy-carbon is run a part at a time",
            "add --part single-site or --part federation",
        ),
        (
            "study energy-carbon --part single-site --logs logs",
            2,
            "--logs changes nothing: energy-carbon replays no folder of logs",
            "leave --logs out",
        ),
        ("study profit-cooling --search-time 5", 2, "'5'", "write it like"),
        ("study", 2, "Missing argument 'NAME'", "offpeak study --help shows"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(
    site: Path, capfd: pytest.CaptureFixture[str], arguments: str, code: int, message: str, hint: str
) -> None:
    (site / "damaged").mkdir()
    (site / "damaged" / "results.jsonl").write_text("nonsense\n")
    assert run(arguments.split()) == code
    printed, errors = capfd.readouterr()
    lines = errors.splitlines()
    assert (printed, len(lines)) == ("", 2)
    assert lines[0].startswith(f"offpeak: error: {message}")
    assert lines[1].startswith(f"  hint: {hint}")
