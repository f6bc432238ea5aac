"""Scores of run times, power and waits on small logs, computed again and compared with the pages' tables."""

from pathlib import Path

import pytest
from study_tables import stored

from benchmarks.score_tables import (
    LOGS,
    POWERS,
    RUN_TIMES,
    WAITS,
    choice_row,
    jobs_row,
    power_row,
    scores_of,
    waits_rows,
)
from sim_backend.sample import SAMPLE_LOG
from studies.scores.log_scores import POWER, RUN_TIME, WAIT

SHORT, GENERATED = "SDSC-SP2, first 5,000", "Lublin 99"


def file_of(shared: Path, log: str) -> Path:
    return shared / "data" / "traces" / f"{LOGS[log]}.swf.gz"


@pytest.mark.thorough
def test_run_times(shared: Path) -> None:
    row = jobs_row(SHORT, scores_of(file_of(shared, SHORT), RUN_TIME, RUN_TIMES))
    assert row[:-1] in [found[:-1] for found in stored("jobs/scores")]
    assert choice_row(SHORT, file_of(shared, SHORT)) in stored("jobs/choice")
    assert choice_row("bundled sample", SAMPLE_LOG) in stored("jobs/choice")


@pytest.mark.thorough
def test_waits(shared: Path) -> None:
    rows = waits_rows(GENERATED, scores_of(file_of(shared, GENERATED), WAIT, WAITS))
    assert rows["waits/scores"] in stored("waits/scores")
    assert rows["waits/intervals"] in stored("waits/intervals")
    # Processor times differ from run to run, the number of jobs does not.
    assert rows["waits/seconds"][:2] in [found[:2] for found in stored("waits/seconds")]


def test_power() -> None:
    rows = [power_row(name, result) for name, result in scores_of(SAMPLE_LOG, POWER, POWERS[:2]).items()]
    assert [row[:-1] for row in rows] == [found[:-1] for found in stored("jobs/power")[1:3]]


def test_each_row_is_of_a_known_log() -> None:
    assert [row[0] for row in stored("waits/scores")[1:]] == list(LOGS)
    assert {row[0] for row in stored("jobs/scores")[1:]} < set(LOGS)
