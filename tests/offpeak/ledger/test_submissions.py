"""A job's row is inserted once, and updated only if the caller knows its current content."""

from dataclasses import replace

import pytest

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import SubmissionRecord

pytestmark = pytest.mark.quick

ROW = SubmissionRecord("k", 1.0, "ann", "digest", "north", "tried", 1.0, answer={"reason": "it is green"})


def test_one_of_two_begins_and_the_other_hears_of_it(ledger: Ledger) -> None:
    assert ledger.submission("k") is None
    assert ledger.change_submission(None, ROW)
    assert not ledger.change_submission(None, replace(ROW, site="east"))
    assert ledger.submission("k") == ROW


def test_recent_jobs_are_found_and_older_ones_summed_by_site_and_project(ledger: Ledger) -> None:
    requests = {"project": "climate", "expected": {"cores": 4, "run_s": 60}}
    rows = {
        "b": replace(ROW, tried_unix_s=20.0),
        "a": replace(ROW, tried_unix_s=20.0, state="taken"),
        "failed": replace(ROW, tried_unix_s=20.0, state="failed"),
        "old": replace(ROW, tried_unix_s=9.0, answer=requests),
        "cancelled": replace(ROW, tried_unix_s=8.0, answer=requests | {"held_s": 2.5}),
        "before": replace(ROW, tried_unix_s=3.0, answer=requests),
        "nobody's": replace(ROW, tried_unix_s=9.0),
        "elsewhere": replace(ROW, tried_unix_s=9.0, answer=requests, site="east"),
        "unbounded": replace(ROW, tried_unix_s=9.0, answer=requests, site="south"),
    }
    for key, row in rows.items():
        assert ledger.change_submission(None, replace(row, key=key))
    given = ledger.given(("tried", "taken"), 10.0, {"north": 4.0, "east": 0.0})
    assert [row.key for row in given.recent] == ["a", "b"]
    assert given.core_s == {("north", "climate"): 250.0, ("east", "climate"): 240.0}
    assert ledger.given((), 10.0, {}).core_s == {}


def test_stale_update_of_a_submission_changes_nothing(ledger: Ledger) -> None:
    assert ledger.change_submission(None, ROW)
    again = replace(ROW, tried_unix_s=30.0)
    assert ledger.change_submission(ROW, again)
    assert not ledger.change_submission(ROW, replace(ROW, state="taken", job="1"))
    taken = replace(again, state="taken", job="17")
    assert ledger.change_submission(again, taken)
    assert ledger.submission("k") == taken
