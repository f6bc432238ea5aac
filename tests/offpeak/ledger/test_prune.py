"""Every table keeps its rows for a stated time, and a SQLite file gives back the room that they took."""

from pathlib import Path

import pytest
from ledger_sums import count, file_of, rows_of
from sqlalchemy import inspect

from offpeak.door.effect import Effect, Hold, Outcome, Refusal
from offpeak.ledger import prune, tables
from offpeak.ledger.database import reading_engine
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.prune import ACCOUNT_S, BOUNDED, LOG_S, RECORD_S, RETENTION_RULES
from offpeak.ledger.rows import (
    DecisionRecord,
    JobCredit,
    JobGpus,
    JobUse,
    NodeStateRecord,
    Price,
    SavingRecord,
    SubmissionRecord,
)
from offpeak.ledger.seals import make_seal
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeOrder
from offpeak.model.time_range import TimeRange

LATER = 100.0
"""The age difference of the two rows of a kind."""


def test_each_table_has_an_age_or_a_reason_why_it_does_not_grow(ledger: Ledger) -> None:
    engine = reading_engine(ledger.settings.url)
    there = set(inspect(engine).get_table_names()) - {"alembic_version"}
    engine.dispose()
    aged = [age.table_name for age in RETENTION_RULES]
    assert len(set(aged)) == len(aged)
    assert set(aged).isdisjoint(BOUNDED)
    assert there == {*aged, *BOUNDED}


@pytest.mark.parametrize("age", RETENTION_RULES, ids=lambda age: age.table_name)
def test_an_index_begins_with_the_time_by_which_rows_are_found(age: prune.RetentionRule, ledger: Ledger) -> None:
    engine = reading_engine(ledger.settings.url)
    found = inspect(engine)
    indexes = [index["column_names"] for index in found.get_indexes(age.table_name)]
    indexes += [unique_constraint["column_names"] for unique_constraint in found.get_unique_constraints(age.table_name)]
    indexes.append(found.get_pk_constraint(age.table_name)["constrained_columns"])
    engine.dispose()
    assert any(columns[0] == age.at.name for columns in indexes) == age.indexed


def test_the_reference_states_each_table_and_its_age(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "ledger.md").read_text()
    for age in RETENTION_RULES:
        kept = "`[ledger] keep_" if age.keep_s is None else f"{age.keep_s // DAY_S:,} days"
        assert any(f"`{age.table_name}`" in line and kept in line for line in page.splitlines()), age.table_name
    assert [name for name in BOUNDED if f"`{name}`" not in page] == []


def fill(ledger: Ledger, at_s: float) -> None:
    """Write a row of everything that has an age."""
    effect = Effect(f"n{at_s:.0f}", NodeOrder.SOFT_OFF, "offpeak", "idle")
    ledger.write_outcome(ledger.write_intent(effect, at_s), Outcome("done", "accepted"), at_s + 1)
    ledger.write_refusal(effect, Refusal("mode", "shadow"), at_s)
    ledger.write_decisions([DecisionRecord(at_s, "n1", "sleep", "idle")])
    ledger.write_states([NodeStateRecord("n1", at_s, "on", "on", "offpeak")])
    ledger.write_jobs([JobUse(f"{at_s}", at_s - 60, at_s, "ann", "", "batch", "n1", None, None, "")])
    ledger.write_credits([JobCredit(f"{at_s}", at_s - 60, at_s, at_s - 90, 1.0, "T2", None, "", None)])
    ledger.write_job_gpus([JobGpus(f"{at_s}", at_s - 60, at_s, 60.0, 0.0, 0.0, 0.0, None, "")])
    ledger.write_prices([Price(at_s, at_s + 50, 40.0, "EUR", "file")])
    ledger.write_savings([SavingRecord(at_s, at_s + 50, "none", 1.0, None, 1.0, None, "")])
    ledger.hold(f"n{at_s:.0f}", Hold("ann", "disk", until_unix_s=at_s + 1), at_s)
    submission = SubmissionRecord(f"{at_s}", at_s, "ann", "digest", "north", "taken", at_s)
    assert ledger.change_submission(None, submission)
    ledger.write_seal(make_seal("", TimeRange(at_s, at_s + 1), at_s, {}), {"zone": "UTC"})


KEPT = {
    tables.decisions: LOG_S,
    tables.refusals: LOG_S,
    tables.intents: RECORD_S,
    tables.outcomes: RECORD_S,
    tables.holds: RECORD_S,
    tables.submissions: RECORD_S,
    tables.jobs: ACCOUNT_S,
    tables.credits: ACCOUNT_S,
    tables.job_gpus: ACCOUNT_S,
    tables.prices: ACCOUNT_S,
    tables.savings: ACCOUNT_S,
    tables.sealed_settings: ACCOUNT_S,
}


def test_rows_go_when_they_are_older_than_their_table_keeps(ledger: Ledger) -> None:
    for at_s in (1000.0, 1000.0 + LATER):
        fill(ledger, at_s)
    assert ledger.settle()
    for kept_s in sorted(set(KEPT.values())):
        of_age = [table for table, keep_s in KEPT.items() if keep_s == kept_s]
        ledger.prune(1000.0 + kept_s)
        assert [count(ledger.settings.url, table) for table in of_age] == [2] * len(of_age)
        ledger.prune(1000.0 + kept_s + LATER / 2)
        assert [count(ledger.settings.url, table) for table in of_age] == [1] * len(of_age)


def test_prune_keeps_old_rows_that_still_count(ledger: Ledger) -> None:
    unfinished = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, "offpeak", "idle"), 1.0)
    ledger.hold("n1", Hold("ann", "disk", until_unix_s=None), 1.0)
    ledger.write_states([NodeStateRecord("n1", at_s, "on", "on", "offpeak") for at_s in (1.0, 2.0)])
    assert ledger.change_submission(None, SubmissionRecord("k", 1.0, "ann", "digest", "north", "tried", 1.0))
    assert ledger.settle()
    assert ledger.prune(1e10) == 1
    assert [intent.number for intent in ledger.unfinished()] == [unfinished]
    assert ledger.holds(1e10).keys() == {"n1"}
    assert ledger.latest()["n1"].at_unix_s == 2.0
    assert ledger.submission("k") is not None


def test_rows_go_in_slices(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "SLICE_ROWS", 10)
    ledger.write_decisions([DecisionRecord(float(at), f"job {at}", "delayed", "cheaper") for at in range(25)])
    assert ledger.settle()
    assert ledger.prune(LOG_S + 21) == 21
    assert [row[1] for row in rows_of(ledger, tables.decisions)] == [21.0, 22.0, 23.0, 24.0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_file_becomes_smaller_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "SLICE_PAGES", 50)
    rows = [DecisionRecord(float(at), f"job {at}", "delayed", "cheaper " * 20) for at in range(10_000)]
    ledger.write_decisions(rows)
    assert ledger.settle()
    ledger.prune(0.0)
    before = _pages(ledger)
    assert ledger.prune(LOG_S + 20_000) == len(rows)
    assert _pages(ledger) < before / 4
    assert count(ledger.settings.url, tables.decisions) == 0


def _pages(ledger: Ledger) -> int:
    assert file_of(ledger).exists()
    engine = reading_engine(ledger.settings.url)
    with engine.connect() as connection:
        found = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    engine.dispose()
    return found


def test_the_test_fills_every_table_with_a_fixed_age() -> None:
    fixed = {age.table_name for age in RETENTION_RULES if age.keep_s is not None}
    assert {table.name for table in KEPT} | {"quarters", "states"} == fixed | {"outcomes"}
