"""The jobs of a window as rectangles of nodes by time: which jobs, where, and what is said of each."""

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.job_power import POWER_CLASSES, power_class
from offpeak.text import counted
from sim_backend.figures import BusiestWindow, placed
from ui.report.figure import Json, Key, packed
from ui.report.subject import Policy, Subject

MOST_JOBS = 3_000
"""More rectangles than these and their pieces make a browser slow."""

ALL_JOBS = 12_000
"""More than these of all policies together make a large file."""

VISIBLE_ROWS = 150
"""A block that is lower than one of so many rows of the machine would vanish under an outline in the page's colour."""


def most_jobs(subject: Subject) -> int:
    """Return how many jobs are drawn of a policy. Where nodes sleep, policies are many."""
    return min(MOST_JOBS, ALL_JOBS // len(subject.policies)) if subject.can_sleep else MOST_JOBS


def shown_jobs(subject: Subject, policy: Policy, window: BusiestWindow) -> Int64:
    """Return the jobs that run in the window, the largest there if they are too many."""
    schedule = policy.run.schedule
    inside = np.flatnonzero(window.holds(schedule))
    runs_s = np.minimum(schedule.end_s, window.until_s) - np.maximum(schedule.start_s, window.from_s)
    node_s = subject.comparison.case.jobs.size * runs_s
    largest: Int64 = np.sort(inside[np.argsort(-node_s[inside], kind="stable")[: most_jobs(subject)]])
    return largest


def blocks_json(subject: Subject, window: BusiestWindow, shown: list[Int64]) -> Json:
    """Return what the page's script draws: the jobs' texts and power classes, and each policy's rectangles.

    `shown` holds the jobs of each policy.
    """
    jobs = np.unique(np.concatenate(shown))
    return {
        "from_ms": subject.calendar.axis_range(window.from_s, window.until_s)[0],
        "thin_below": subject.comparison.case.machine.size / VISIBLE_ROWS,
        "text": [_job_text(subject, job) for job in jobs.tolist()],
        "power_class": packed(power_class(subject.comparison.case.node_power_w)[jobs], "i1"),
        "policies": [
            _rectangles(subject, policy, window, of_policy, np.searchsorted(jobs, of_policy))
            for policy, of_policy in zip(subject.policies, shown, strict=True)
        ],
    }


def _rectangles(subject: Subject, policy: Policy, window: BusiestWindow, shown: Int64, number: Int64) -> Json:
    """Return rectangles: seconds from the window's begin, units, and the number of the job among the texts."""
    case, schedule = subject.comparison.case, policy.run.schedule
    start_s, end_s = schedule.start_s[shown], schedule.end_s[shown]
    blocks = placed(case.jobs.size[shown], start_s, end_s, machine_size=case.machine.size)
    columns = {
        "job": number[blocks.job],
        "start_s": np.maximum(start_s[blocks.job], window.from_s) - window.from_s,
        "end_s": np.minimum(end_s[blocks.job], window.until_s) - window.from_s,
        "low": blocks.low,
        "high": blocks.high,
    }
    return {name: packed(column, "i4") for name, column in columns.items()}


def class_keys(subject: Subject) -> dict[int, Key]:
    """Return the legend's entry of each power class that jobs of the log belong to."""
    power_w = subject.comparison.case.node_power_w
    classes = power_class(power_w)
    keys = {}
    for number in np.unique(classes).tolist():
        low, high = (f"{watts:.0f}" for watts in (power_w[classes == number].min(), power_w[classes == number].max()))
        draw = f"{low} W" if low == high else f"{POWER_CLASSES[number]}: {low} to {high} W"
        keys[number] = Key(f"{draw} per {subject.unit}", f"var(--class-{number})", is_area=True)
    return keys


def _job_text(subject: Subject, job: int) -> str:
    case, names = subject.comparison.case, subject.trace.names
    jobs = case.jobs
    who = f"job {names.job_text(int(jobs.job_id[job]))}, user {names.user_text(int(jobs.user[job]))}"
    return f"{who}, {counted(int(jobs.size[job]), subject.unit)}, {case.node_power_w[job]:.0f} W each"
