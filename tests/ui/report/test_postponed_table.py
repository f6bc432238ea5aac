"""The most postponed jobs, by name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.jobs import LogNames
from offpeak.model.step_integrals import Usage
from offpeak.sim_backend.comparison.outcome import Charges, PolicyRun
from offpeak.sim_backend.replay.schedule import Schedule
from offpeak.ui.report.subject import ReportSubject
from offpeak.ui.report.tables import most_postponed, postponed_section

Make = Callable[..., ReportSubject]


def run(start_s: list[int]) -> PolicyRun:
    starts = np.array(start_s)
    usage: Usage = None  # type: ignore[assignment]
    charges: Charges = None  # type: ignore[assignment]
    return PolicyRun("a policy", Schedule(starts, starts + 60, 0.0), usage, charges)


STARTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30)


@given(STARTS, st.integers(1, 12))
def test_the_latest_come_first_and_nobody_who_is_not_later(starts: list[tuple[int, int]], count: int) -> None:
    late, early = run([at for at, _ in starts]), run([at for _, at in starts])
    later = [a - b for a, b in starts]
    found = [later[job] for job in most_postponed(late, early, count).tolist()]
    assert found == sorted((value for value in later if value > 0), reverse=True)[:count]


def test_a_row_names_job_and_user_and_tells_the_local_time(make: Make) -> None:
    plain = make()
    policy, first = plain.policies[1], plain.policies[0]
    job = int(most_postponed(policy.run, first.run, 1)[0])
    jobs = plain.comparison.case.jobs
    users = tuple(f"user-{number}" for number in range(int(jobs.user.max()) + 1))
    named = make(names=LogNames(user=users, job={int(jobs.job_id[job]): "array_7"}))
    row = postponed_section(named).split("<tbody>")[1].split("</tr>")[0]
    assert "array_7" in row
    assert f"user-{jobs.user[job]}" in row
    assert plain.calendar.minute_text(int(jobs.submit_s[job])) in row


def test_where_nobody_is_postponed_it_says_so(make: Make) -> None:
    alone = make(20, "easy")
    assert "Only one policy was replayed" in postponed_section(alone)
    twice = replace(alone, policies=alone.policies * 2)
    assert "No job starts later under easy than under easy." in postponed_section(twice)
