"""A log as predictors are examined on it: real starts or a replay's, and nothing known that users did not say."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadTrace
from offpeak.sim_backend.sample import SAMPLE_SACCT
from offpeak.ui.forecast.log_scores import read_log_file


def test_logged_starts_are_used(ran, written):
    log = read_log_file(written(ran))
    assert log.start_s.tolist() == ran.logged_start_s.tolist()
    assert log.end_s.tolist() == (ran.logged_start_s + ran.runtime_s).tolist()
    assert (log.name, log.units, log.notes) == ("log", 64, ())


def test_a_log_without_starts_is_replayed(ran, without_starts, written):
    log = read_log_file(written(without_starts))
    assert log.start_s.tolist() == ran.logged_start_s.tolist()
    assert log.notes == ("starts are not logged: those of a replay under EASY are used",)


def test_jobs_without_a_start_are_left_out_of_a_log_with_starts(ran, written):
    logged_start_s = np.where(np.arange(len(ran)) % 50 == 7, -1, ran.logged_start_s)
    log = read_log_file(written(replace(ran, logged_start_s=logged_start_s)))
    assert log.start_s.tolist() == logged_start_s[logged_start_s >= 0].tolist()
    assert log.notes == ("3 jobs left out: not known when it started",)


def test_jobs_without_a_requested_time_get_the_usual_limit_and_not_their_run_time(ran, written):
    silent, absurd = np.arange(len(ran)) % 20 == 1, np.arange(len(ran)) == 0
    requested_s = np.where(absurd, 10**9, np.minimum(ran.estimate_s, 7200))
    log = read_log_file(written(replace(ran, estimate_s=np.where(silent, -1, requested_s))))
    assert log.jobs.estimate_s.tolist() == np.where(silent, 7200, requested_s).tolist()
    assert log.notes == ("8 jobs without an estimate: 7,200 s is assumed",)


def test_where_no_user_requested_a_time_the_limit_is_that_of_the_run_times(ran, written):
    log = read_log_file(written(replace(ran, estimate_s=np.full(len(ran), -1))))
    (limit_s,) = set(log.jobs.estimate_s.tolist())
    assert (ran.runtime_s <= limit_s).mean() == pytest.approx(0.99, abs=1 / len(ran))


def test_jobs_wider_than_the_machine_are_left_out(ran, written):
    wide = int((ran.size > 32).sum())
    log = read_log_file(written(ran, units=32))
    assert len(log.jobs) == len(ran) - wide
    overfull, left_out = log.notes
    assert "where its header says 32" in overfull
    assert left_out == f"{wide} jobs left out: wider than the machine (32)"


def test_jobs_of_one_number_are_distinct(ran, written):
    log = read_log_file(written(replace(ran, job_id=np.ones(len(ran), np.int64))))
    assert len(set(log.jobs.job_id.tolist())) == len(ran)


def test_a_log_of_no_machine_cannot_be_scored(ran, written):
    path = written(ran)
    lines = [line for line in path.read_text().splitlines(keepends=True) if "Max" not in line]
    path.write_text("".join(lines))
    with pytest.raises(BadTrace, match="log: the log does not say how large the machine is") as caught:
        read_log_file(path)
    assert "MaxProcs" in caught.value.hint


def test_real_logs(shared):
    for name in ["SDSC-SP2_first5000", "KTH_common"]:
        log = read_log_file(shared / "data" / "traces" / f"{name}.swf.gz")
        replayed = any("replay" in note for note in log.notes)
        assert replayed == (name == "KTH_common")
        assert (log.start_s >= log.jobs.submit_s).all()


def test_an_accounting_log_shows_how_large_its_machine_is():
    log = read_log_file(SAMPLE_SACCT)
    assert log.units == 128
    assert log.notes == ("size of the machine: 128 nodes, the most in use at once",)
