"""The jobs that a policy postpones most, by name: those are the users who will ask."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.schedule_metrics import postponement_s
from sim_backend.engine.state import NOT_YET
from sim_backend.outcome import PolicyRun
from ui.clock_text import clock_text
from ui.report.html_text import Cell, paragraph, section, table
from ui.report.subject import Policy, Subject

SHOWN_JOBS = 10
HEADERS = (
    "job",
    "user",
    "{unit}s",
    "W per {unit}",
    "submitted",
    "started under {baseline}",
    "under {policy}",
    "later by",
)


def postponed_section(subject: Subject) -> str:
    """Return a table for each policy but the baseline."""
    if not subject.others:
        parts = [paragraph("Only one policy was replayed: no job starts later than under another.")]
    else:
        parts = [_policy_part(subject, policy) for policy in subject.others]
    return section("Who waits longest for it", *parts)


def most_postponed(run: PolicyRun, baseline: PolicyRun, count: int) -> Int64:
    """Return the `count` jobs that start most later than under the baseline, none that does not start later."""
    first_s = baseline.schedule.start_s
    later_s = np.where(first_s == NOT_YET, 0, postponement_s(run.schedule.start_s, first_s))
    most = np.argsort(-later_s, kind="stable")[:count]
    return most[later_s[most] > 0]


def _policy_part(subject: Subject, policy: Policy) -> str:
    first = subject.policies[0]
    jobs = most_postponed(policy.run, first.run, SHOWN_JOBS)
    if not len(jobs):
        return paragraph(f"No job starts later under {policy.name} than under {first.name}.")
    headers = [header.format(baseline=first.name, policy=policy.name, unit=subject.unit) for header in HEADERS]
    caption = f"The jobs that {policy.name} postpones most against {first.name}"
    return table(caption, headers, [_row(subject, policy, job) for job in jobs.tolist()], texts=2)


def _row(subject: Subject, policy: Policy, job: int) -> tuple[Cell, ...]:
    case, names, calendar = subject.comparison.case, subject.trace.names, subject.calendar
    start_s = int(policy.run.schedule.start_s[job])
    before_s = int(subject.policies[0].run.schedule.start_s[job])
    texts = (
        names.job_text(int(case.jobs.job_id[job])),
        names.user_text(int(case.jobs.user[job])),
        f"{case.jobs.size[job]:,}",
        f"{case.node_power_w[job]:.0f}",
        calendar.minute_text(int(case.jobs.submit_s[job])),
        calendar.minute_text(before_s),
        calendar.minute_text(start_s),
        clock_text(start_s - before_s),
    )
    return tuple(Cell(text) for text in texts)
