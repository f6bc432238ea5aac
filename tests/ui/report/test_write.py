"""The file: written as a whole, checked before the replay, self-contained and the same each time."""

import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from offpeak.errors import BadInput
from offpeak.files import check_writable
from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.tables import ReportOrigin
from offpeak.ui.report.write import report_html, write_report

Make = Callable[..., ReportSubject]


@pytest.fixture(scope="module")
def html(subject: ReportSubject) -> str:
    return report_html(subject, ReportOrigin("offpeak simulate a.swf --report r.html", "site.toml", 7))


def test_report_contains_plotly_once_and_loads_nothing_else(html: str) -> None:
    assert html.count("plotly.js v") == 1
    without_scripts = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"<link|<img|<iframe|@import|url\(|src=|href=", without_scripts)
    assert len(html) < 8_000_000


def test_report_states_its_inputs(html: str) -> None:
    for text in (
        "offpeak simulate a.swf --report r.html",
        "Random seed: 7, with the settings of site.toml.",
        "log mapped to its own dates, from 2023-02-06",
        "Made by offpeak ",
    ):
        assert text in html


def test_headings_come_in_order(html: str) -> None:
    assert html.count("<h1>") == 1
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "What each policy saves",
        "Cost per day",
        "What the policies do",
        "Power over time",
        "Power by the hour of the day",
        "How long jobs wait",
        "All figures of the replayed time",
        "Results of each policy",
        "Which jobs start later",
        "Jobs that are delayed most",
        "The busiest days, job by job",
        "The busiest days, job by job",
        "Assumptions, definitions, and how to reproduce this report",
        "Assumptions",
    ]


def test_nodes_that_sleep_have_their_figures(sleeping: ReportSubject) -> None:
    html = report_html(sleeping)
    assert re.findall(r"<h2>(.*?)</h2>", html) == [
        "What each policy saves",
        "Cost per day",
        "What the policies do",
        "Power over time",
        "Nodes over time",
        "Power by the hour of the day",
        "What each policy trades",
        "What sleeping costs the jobs and the nodes",
        "How long jobs wait",
        "What sleeping costs the jobs, week by week",
        "How long jobs wait for nodes to wake",
        "Power cycles of each node",
        "All figures of the replayed time",
        "Results of each policy",
        "Which jobs start later",
        "Jobs that are delayed most",
        "The busiest days, job by job",
        "The busiest days, job by job",
        "Assumptions, definitions, and how to reproduce this report",
        "Assumptions",
    ]
    assert "<dt>delay by sleep</dt>" in html
    assert len(html) < 8_000_000


def test_the_same_comparison_makes_the_same_report(subject: ReportSubject) -> None:
    assert report_html(subject) == report_html(subject)


def test_a_report_replaces_what_was_there(subject: ReportSubject, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("older", encoding="utf-8")
    check_writable(path, example="report.html")
    write_report(path, subject.trace, subject.prepared, subject.comparison)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [(".", "is a directory", "report.html"), ("absent/r.html", "cannot be written: No such", "mkdir -p")],
)
def test_a_path_that_cannot_be_written_is_refused_beforehand(
    tmp_path: Path, path: str, message: str, hint: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        check_writable(tmp_path / path, example="report.html")
    assert hint in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_closed_is_refused_beforehand(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="cannot be written: Permission denied"):
        check_writable(tmp_path / "r.html", example="report.html")


@pytest.mark.parametrize("policies", [("easy",), ("easy", "greedy", "fcfs")])
def test_logs_of_one_job_of_no_time_and_without_a_date(make: Make, policies: tuple[str, ...]) -> None:
    for subject in (
        make(1, *policies),
        make(1, *policies, unix_start_s=None, time_zone=None),
        make(make(1).comparison.case.jobs.take(slice(0, 1)), *policies),
    ):
        assert "<h2>Assumptions</h2>" in report_html(subject)


def failing(folder: Path) -> str:
    """Write a node class whose nodes never come up, and return its name."""
    text = (files("offpeak") / "node_classes" / "sketch.toml").read_text(encoding="utf-8")
    path = folder / "failing.toml"
    path.write_text(text.replace("failure_probability = 0.0", "failure_probability = 1.0"), encoding="utf-8")
    return str(path)


def without_depths(folder: Path) -> str:
    """Write a node class that never sleeps, and return its name."""
    text = (files("offpeak") / "node_classes" / "sketch.toml").read_text(encoding="utf-8")
    path = folder / "awake.toml"
    path.write_text(text.split("[off]")[0], encoding="utf-8")
    return str(path)


def test_logs_of_one_job_nodes_without_depths_and_nodes_that_all_fail(make: Make, tmp_path: Path) -> None:
    for subject in (
        make(1, "easy", capacities=("timeout:5min",)),
        make(1, "easy", capacities=("always-on", "timeout:5min"), unix_start_s=None, time_zone=None),
        make(60, "easy", "greedy", capacities=("always-on",), node_class=without_depths(tmp_path)),
        make(60, "easy", capacities=("always-on", "energy-aware"), node_class=failing(tmp_path)),
        make(60, "easy", capacities=("energy-aware", "always-on"), node_class=failing(tmp_path)),
    ):
        assert "<h2>What each policy trades</h2>" in report_html(subject)


def test_the_command_writes_it_and_prints_as_ever(offpeak: Callable[..., object], tmp_path: Path) -> None:
    done = offpeak("simulate", SAMPLE_LOG, "--prices", SAMPLE_PRICES, "--policy", "easy,greedy", "--report", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sample: 4,500 jobs")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "--policy easy,greedy --report r.html</p>" in html


def test_the_command_tells_of_a_bad_path_before_it_reads_the_log(offpeak: Callable[..., object]) -> None:
    done = offpeak("simulate", "absent.swf", "--report", "absent/r.html")
    assert done.returncode == 2
    assert done.stderr.startswith("offpeak: error: absent/r.html: cannot be written")
