"""Filters of a job log: fit it to a machine, cut it to a period or to the days with prices, take the names out.

A log that is fitted to a machine has its jobs in the machine's allocation unit, without jobs that could never run on
it. In a log that is cut to a period, jobs that wait or run at the start are present from the first second on. An
anonymous log has no users and projects, so its figures may leave the site.
"""

from dataclasses import fields, replace
from datetime import UTC

import numpy as np

from offpeak.errors import BadTrace
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import Jobs, LogNames, RejectedJobs, Trace, make_jobs
from offpeak.model.limits import SitePriority
from offpeak.model.step_series import Series
from offpeak.model.zones import date_text, parse_zone
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.settings.replay import PriceSettings
from offpeak.text import counted


def runnable(trace: Trace, size_limit: int) -> tuple[Jobs, tuple[RejectedJobs, ...]]:
    """Return the jobs of at most `size_limit` units, and all rejected ones. Raises BadTrace if no job is left."""
    wide = trace.jobs.size > size_limit
    rejected = trace.rejected
    if wide.any():
        job_ids = tuple(trace.jobs.job_id[wide].tolist())
        rejected = (*rejected, RejectedJobs(f"wider than the machine ({size_limit})", job_ids))
    if wide.all():
        fault = f"no job can run: {reasons_text(rejected)}"
        raise BadTrace(f"{trace.name}: {fault}", hint="give the machine's size with --nodes")
    return (trace.jobs.take(~wide) if wide.any() else trace.jobs), rejected


def reasons_text(rejected: tuple[RejectedJobs, ...]) -> str:
    """Say why no job of a log is left."""
    return "; ".join(f"{counted(len(each.job_ids), 'job')}: {each.reason}" for each in rejected) or "it is empty"


def whole_nodes(jobs: Jobs, processors_per_node: int) -> Jobs:
    """Return the jobs with sizes in whole nodes instead of processors, rounded up."""
    requested, used = (-(-size // processors_per_node) for size in (jobs.size, jobs.as_logged().size))
    return replace(jobs.with_size(requested), logged_size=None if jobs.logged_size is None else used)


FEW_JOBS = 100
"""A log with fewer jobs does not count as the last days of a busy machine: it is complete from its first start on."""

_NONE = np.empty(0, np.int64)
NO_JOBS = make_jobs(_NONE, _NONE, _NONE, _NONE)


def known_period_s(jobs: Jobs) -> tuple[int, int]:
    """Return the seconds between which a log of jobs that ran is whole: the last one before any job ended, and the end.

    A scheduler that is queried for the jobs of some days returns all that ran in them, also such as began before.
    """
    ends = jobs.logged_start_s + jobs.runtime_s
    begins = jobs.logged_start_s if len(jobs) < FEW_JOBS else ends - 1
    return int(begins.min()), int(ends.max())


def last_days(trace: Trace, days: int | None) -> Trace:
    """Return the last days of the log, or its whole complete period. Raises BadTrace if no job ran then."""
    if not len(trace.jobs):
        raise BadTrace(f"{trace.name}: no job ran: {reasons_text(trace.rejected)}", hint="a log of more days is needed")
    begin_s, until_s = known_period_s(trace.jobs)
    if days is not None:
        begin_s = max(begin_s, until_s - days * DAY_S)
    # Drop the last reference to the trace, so that `between` can free what it has cut.
    given = [trace]
    del trace
    return between(given.pop(), begin_s, until_s)


def between(trace: Trace, begin_s: int, until_s: int) -> Trace:
    """Return the log as if it had begun at `begin_s` and ended at `until_s`, with all jobs whose starts it logged.

    A job that runs at the start is submitted then, with the rest of its run time and estimate; a job that waits is
    submitted then; the run time of a job that runs at the end is cut. Raises BadTrace if no job ran.
    """
    jobs = trace.jobs
    if len(jobs) and jobs.submit_s[0] >= begin_s and (jobs.logged_start_s + jobs.runtime_s).max() <= until_s:
        return trace
    columns = {field.name: getattr(jobs, field.name) for field in fields(Jobs)}
    whole = replace(trace, jobs=NO_JOBS)
    del trace, jobs
    logged_start_s = columns.pop("logged_start_s")
    start_s = np.maximum(logged_start_s, begin_s)
    end_s = np.minimum(logged_start_s + columns.pop("runtime_s"), until_s)
    inside = ((end_s > begin_s) | (logged_start_s >= begin_s)) & (logged_start_s <= until_s)
    if not inside.any():
        raise BadTrace(f"{whole.name}: no job ran in the period asked for", hint="more --days, or a newer log")
    submit_s = np.clip(columns.pop("submit_s"), begin_s, start_s)
    order = np.flatnonzero(inside)
    order = order[np.argsort(submit_s[order], kind="stable")]
    cut = {"submit_s": submit_s[order]}
    del submit_s, inside
    cut["estimate_s"] = np.maximum(columns.pop("estimate_s") - (start_s - logged_start_s), 1)[order]
    del logged_start_s
    cut["runtime_s"] = (end_s - start_s)[order]
    del end_s
    cut["logged_start_s"] = start_s[order]
    del start_s
    while columns:
        name, column = columns.popitem()
        cut[name] = None if column is None else column[order]
    return replace(whole, jobs=Jobs(**cut))


def priced(trace: Trace, prices: PriceSettings) -> Trace:
    """Return the log of the time for which the price file has prices, if that is a day or more of its own dates.

    A log that they do not touch, or that has no date, stays whole: it is laid on other days of the prices.
    """
    if trace.unix_start_s is None or prices.file is None:
        return trace
    return _within(trace, read_series(prices.file, parse_layout(prices.layout or "")), trace.unix_start_s)


def _within(trace: Trace, prices: Series, offset_s: int) -> Trace:
    begin_s, until_s = known_period_s(trace.jobs)
    first_s = max(begin_s, int(prices.start_s[0]) - offset_s)
    last_s = min(until_s, prices.end_s - offset_s)
    if (first_s, last_s) == (begin_s, until_s) or last_s - first_s < DAY_S:
        return trace
    zone = parse_zone(trace.time_zone) if trace.time_zone else UTC
    days = f"{date_text(first_s + offset_s, zone)} to {date_text(last_s + offset_s, zone)}"
    note = f"prices cover a part of the log, {days}: the estimate is for that part"
    return replace(between(trace, first_s, last_s), notes=(*trace.notes, note))


def anonymised(trace: Trace) -> Trace:
    """Return the log with users, groups, queues and applications numbered in the order in which they first submitted.

    Job ids are kept: they name no user, and people with access to the scheduler's accounting can look them up.
    """
    names, jobs = trace.names, trace.jobs
    numbered = replace(
        names,
        user=_numbered("user", jobs.user, names.user),
        group=_numbered("group", jobs.group, names.group),
        queue=_numbered("queue", jobs.queue, names.queue),
        application=_numbered("application", jobs.application, names.application),
        partition=() if jobs.partition is None else _numbered("partition", jobs.partition, names.partition),
        node=(),
    )
    partitions = _renamed_partitions(names, numbered)
    requests = tuple(
        request._replace(
            partitions=tuple(partitions.get(name, name) for name in request.partitions),
            qos="",
            reservation="",
            licences=(),
        )
        for request in trace.requests
    )
    return replace(trace, jobs=replace(jobs, node=None), names=numbered, requests=requests)


def anonymised_cluster(cluster: Cluster, before: LogNames, after: LogNames) -> Cluster:
    """Return the cluster with the partitions of an anonymous log, without the names of QOS, reservations and licences.

    `before` are the names of the log, `after` those that stand for them.
    """
    names = _renamed_partitions(before, after)
    for name in cluster.partitions:
        names.setdefault(name, f"queue{len(names) + 1}" if names else name)
    return Cluster(
        tuple(pool._replace(partitions=frozenset(map(names.__getitem__, pool.partitions))) for pool in cluster.pools),
        {names[name]: each._replace(name=names[name], qos="") for name, each in cluster.partitions.items()},
        timing=cluster.timing,
        preemption=cluster.preemption,
        priority=cluster.priority and _anonymised_priority(cluster.priority, before, after),
    )


def _anonymised_priority(priority: SitePriority, before: LogNames, after: LogNames) -> SitePriority:
    """Return the priority with the accounts and users of an anonymous log; its QOS have no names and no weight."""
    account = dict(zip(before.group, after.group, strict=True))
    user = dict(zip(before.user, after.user, strict=True))
    for each in priority.accounts:
        account.setdefault(each.name, f"account without jobs {len(account) + 1}")
        for name, _ in each.users:
            user.setdefault(name, f"user without jobs {len(user) + 1}")
    return priority._replace(
        weights=priority.weights._replace(qos=0),
        accounts=tuple(
            each._replace(
                name=account[each.name],
                parent=account.get(each.parent, ""),
                users=tuple((user[name], shares) for name, shares in each.users),
            )
            for each in priority.accounts
        ),
        not_modelled=(*priority.not_modelled, *(("QOS of the anonymous log",) if priority.weights.qos else ())),
    )


def _renamed_partitions(before: LogNames, after: LogNames) -> dict[str, str]:
    """Return the new name of each partition of a log; of a log that has the numbers only none."""
    if before.partition:
        return dict(zip(before.partition, after.partition, strict=True))
    return dict(zip(before.queue, after.queue, strict=True))


def _numbered(prefix: str, code: Int64, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a new name for each code; names without a job come last."""
    codes, first = np.unique(code[code >= 0], return_index=True)
    order = codes[np.argsort(first)].tolist()
    rank = {code: number for number, code in enumerate(order, 1)}
    for unused in range(len(names)):
        rank.setdefault(unused, len(rank) + 1)
    return tuple(f"{prefix}{rank[number]}" for number in range(len(names)))
