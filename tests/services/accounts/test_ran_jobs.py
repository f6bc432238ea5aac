"""Each run of a job is booked once: with a known or an unknown end, over restarts, and over changes of the clock."""

import json
from dataclasses import replace

import pytest
from account_jobs import job, view
from hypothesis import given
from hypothesis import strategies as st

from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.services.accounts.ended_jobs import (
    AWAY_S,
    SAVE_EVERY_S,
    EndedJob,
    JobKey,
    JobWatch,
    after_booking,
    after_view,
    away_line,
    is_worth_saving,
    job_key,
    job_watch_json,
    jobs_to_book,
    parse_job_watch,
)

pytestmark = pytest.mark.quick

SETTLE_S = 60


def looks(*views: tuple[int, list[Job]]) -> tuple[JobWatch, list[EndedJob]]:
    """Return the watch after these views, and the jobs that were booked."""
    ran: JobWatch | None = None
    all_booked: list[EndedJob] = []
    for at_s, jobs in views:
        ran = after_view(ran, view(at_s, jobs))
        now = jobs_to_book(ran, settle_s=SETTLE_S)
        ran = after_booking(ran, now)
        all_booked += now
    assert ran is not None
    return ran, all_booked


def test_a_job_is_booked_once_and_not_before_its_readings_are_in() -> None:
    running, ended = job("1", start_s=100), job("1", JobState.ENDED, start_s=100, end_s=200)
    _, booked = looks((110, [running]), (210, [ended]))
    assert booked == []
    ran, booked = looks((110, [running]), (210, [ended]), (240, [ended]), (270, [ended]), (300, [ended]), (600, []))
    assert [(each.job.end_s, each.unseen) for each in booked] == [(200, "")]
    assert (ran.running, ran.waiting, ran.booked) == ({}, {}, frozenset())


def test_a_job_that_vanished_ended_between_two_looks_and_not_after_its_limit() -> None:
    _, booked = looks((100, [job("1", start_s=50)]), (200, []), (300, []))
    assert [(each.job.end_s, each.unseen) for each in booked] == [(150, "ended unseen within 100 s")]
    _, booked = looks((100, [job("1", start_s=50, limit_s=70)]), (86_500, []), (86_600, []))
    assert [(each.job.end_s, each.unseen) for each in booked] == [(110, "ended unseen within 20 s")]


def test_a_job_that_is_shown_again_had_not_ended() -> None:
    running = job("1", start_s=50)
    ran, booked = looks((100, [running]), (130, []), (160, [running]))
    assert (booked, ran.waiting, list(ran.running)) == ([], {}, ["1"])
    ended = job("1", JobState.ENDED, start_s=50, end_s=110)
    _, booked = looks((100, [running]), (130, []), (160, [ended]), (220, [ended]))
    assert [(each.job.end_s, each.unseen) for each in booked] == [(110, "")]


def test_nodes_that_a_job_released_are_booked_until_then() -> None:
    whole, fewer = (job("1", start_s=50, hosts=hosts, nodes=count) for hosts, count in (("n[1-4]", 4), ("n2", 1)))
    # Its last record has the nodes of its start again.
    ended = job("1", JobState.ENDED, start_s=50, end_s=300, hosts="n[1-4]", nodes=4)
    _, booked = looks((60, [whole]), (100, [fewer]), (200, [fewer]), (310, [ended]), (330, [ended]), (400, [ended]))
    found = [(each.job.job_id, each.job.hosts, each.job.nodes, each.job.start_s, each.job.end_s) for each in booked]
    assert found == [("1-released4", "n[1,3-4]", 3, 50, 100), ("1", "n2", 1, 50, 300)]


def test_a_requeued_job_ran_twice() -> None:
    _, booked = looks((100, [job("1", start_s=50)]), (200, [job("1", start_s=150)]), (300, []), (400, []), (500, []))
    assert [(each.job.start_s, each.job.end_s) for each in booked] == [(50, 150), (150, 250)]


def test_jobs_without_nodes_or_with_bad_records_are_skipped() -> None:
    cancelled = job("1", JobState.ENDED, start_s=None, end_s=90, hosts="")
    strange = job("2", JobState.OTHER, start_s=50)
    ran, booked = looks((60, [job("2", start_s=50)]), (100, [cancelled, strange]), (300, [cancelled, strange]))
    assert (booked, list(ran.running)) == ([], ["2"])
    assert looks((60, [job("3", JobState.STARTS, start_s=50)]), (100, []), (300, []))[1] == []


def test_a_restart_loses_no_job_and_books_none_twice() -> None:
    running, ended = job("1", start_s=100), job("2", JobState.ENDED, start_s=50, end_s=90)
    ran, booked = looks((110, [running, ended]), (170, [running, ended]))
    assert [each.job.job_id for each in booked] == ["2"]
    again = parse_job_watch(job_watch_json(ran))
    assert again is not None
    assert again.booked == ran.booked
    later = after_view(again, view(900, [ended]))
    assert [
        (each.job.job_id, each.job.end_s) for each in jobs_to_book(replace(later, at_s=960), settle_s=SETTLE_S)
    ] == [("1", (170 + 900) // 2)]
    assert away_line(again, view(900, [])).startswith("the scheduler was not read for 12 min")
    assert away_line(again, view(170 + AWAY_S - 1, [])) == ""
    assert away_line(None, view(900, [])) == ""


def test_the_first_look_books_what_is_still_shown() -> None:
    ended = job("2", JobState.ENDED, start_s=50, end_s=90)
    assert [each.job.job_id for each in looks((100, [ended]), (160, [ended]))[1]] == ["2"]


def test_a_clock_that_goes_back_holds_up_nothing() -> None:
    ended = job("1", JobState.ENDED, start_s=5000, end_s=7000)
    _, booked = looks((6990, [job("1", start_s=5000)]), (7010, [ended]), (3500, [ended]), (3530, [ended]))
    assert [each.job.end_s for each in booked] == [7000]
    _, booked = looks((7000, [job("1", start_s=5000)]), (3400, []), (3470, []))
    assert [(each.job.start_s, each.job.end_s) for each in booked] == [(5000, 5000)]


def test_watch_file_is_small_and_rarely_written() -> None:
    many = [job(str(number), start_s=100, comment="x" * 1000) for number in range(2000)]
    ran, _ = looks((110, many))
    assert len(job_watch_json(ran)) < 2000 * 200
    assert is_worth_saving(None, ran)
    assert not is_worth_saving(ran, replace(ran, at_s=110 + SAVE_EVERY_S))
    assert is_worth_saving(ran, replace(ran, at_s=110 + SAVE_EVERY_S, running={}))
    assert not is_worth_saving(ran, replace(ran, at_s=110 + SAVE_EVERY_S - 1, running={}))


def test_a_watch_in_the_words_of_an_older_version_is_used() -> None:
    ran, _ = looks((1000, [job(7, start_s=900)]))
    older = job_watch_json(ran).replace('"native_state"', '"state_word"')
    assert '"state_word"' in older
    again = parse_job_watch(older)
    assert again is not None
    assert again == parse_job_watch(job_watch_json(ran))


def test_watch_of_another_version_is_ignored() -> None:
    for text in (None, "", "null", "{", "[]", '{"fields": ["job_id"]}', "7"):
        assert parse_job_watch(text) is None


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 400), st.integers(0, 300)), max_size=8),
    st.lists(st.integers(1, 200), max_size=12),
    st.sets(st.integers(0, 12)),
)
def test_each_observed_run_is_booked_once(
    runs: list[tuple[int, int, int]], steps: list[int], restarts: set[int]
) -> None:
    ran: JobWatch | None = None
    seen: set[JobKey] = set()
    found: list[JobKey] = []
    at_s = 0
    for number, step_s in enumerate([*steps, *[SETTLE_S] * 30]):
        at_s += step_s
        jobs = [
            _at(str(run), start_s, start_s + length_s, shown_s, at_s)
            for run, (start_s, length_s, shown_s) in enumerate(runs)
        ]
        shown = [each for each in jobs if each is not None]
        ran = after_view(ran, view(at_s, shown))
        seen |= {job_key(each) for each in shown if each.state is not JobState.PENDING}
        now = jobs_to_book(ran, settle_s=SETTLE_S)
        ran = after_booking(ran, now)
        found += [job_key(each.job) for each in now]
        if number in restarts:
            ran = parse_job_watch(job_watch_json(ran))
    assert sorted(found) == sorted(seen)


def _at(number: str, start_s: int, end_s: int, shown_s: int, at_s: int) -> Job | None:
    """Return how the job is shown at that second; None once it is forgotten."""
    if at_s < start_s:
        return job(number, JobState.PENDING, start_s=None, hosts="")
    if at_s < end_s:
        return job(number, start_s=start_s)
    return job(number, JobState.ENDED, start_s=start_s, end_s=end_s) if at_s <= end_s + shown_s else None


def test_a_watch_of_a_version_that_knew_no_arrays_is_used() -> None:
    ran, _ = looks((1000, [job(7, start_s=900)]))
    watch = json.loads(job_watch_json(ran))
    new = len(Job._field_defaults)
    watch["fields"] = ["needs" if name == "request" else name for name in watch["fields"][:-new]]
    watch["running"] = [["8G" if field is None and at == 9 else field for at, field in enumerate(row[:-new])]
                        for row in watch["running"]]  # fmt: skip
    assert parse_job_watch(json.dumps(watch)) == parse_job_watch(job_watch_json(ran))
    assert parse_job_watch(json.dumps({**watch, "fields": watch["fields"][:-1]})) is None
