"""Replays one case many times, each time with submit times shifted a little, to tell effect from chance."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from os import sched_getaffinity
from threading import Event

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from sim_backend.compare import Case, compare
from sim_backend.outcome import Outcome
from sim_backend.policy import Policy
from sim_backend.spread import Spread, spreads_of

LARGEST_SHIFT_S = 60

DrawPower = Callable[[Generator], Float64]
"""Draws the jobs' power per unit [W] anew, in the order of the case's jobs."""


class _Stopped(Exception):
    """The replays were interrupted from outside."""


def replay_often(
    case: Case,
    policies: tuple[Policy, ...],
    *,
    replays: int,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[Spread, ...]:
    """Return each policy's figures over that many replays, with every submit time 0 to 60 s later than in the log."""
    return spreads_of(replay_each(case, policies, range(replays), seed=seed, progress=progress))


def replay_each(
    case: Case,
    policies: tuple[Policy, ...],
    numbers: range,
    *,
    seed: int,
    draw_power: DrawPower | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[tuple[Outcome, ...]]:
    """Return the outcomes of all policies in the replays of these numbers, in their order.

    With `draw_power` the jobs' draws, too, differ from replay to replay. Replay number i has the seed (seed, i), so
    that its result depends neither on the others nor on the number of processors, over which they run in parallel.
    `progress` is told how many are done, those before the first of the numbers included.
    """
    done = numbers.start
    outcomes: dict[int, tuple[Outcome, ...]] = {}
    with _threads() as (pool, stop):
        futures = {
            pool.submit(_one, case, policies, np.random.default_rng([seed, number]), draw_power, stop): number
            for number in numbers
        }
        for future in as_completed(futures):
            outcomes[futures[future]] = future.result()
            done += 1
            progress(done)
    return [outcomes[number] for number in numbers]


@contextmanager
def _threads() -> Iterator[tuple[ThreadPoolExecutor, Event]]:
    """Yield threads, one a processor: the kernels run without Python's lock. Ctrl-C makes them stop soon."""
    stop = Event()
    pool = ThreadPoolExecutor(len(sched_getaffinity(0)))
    try:
        yield pool, stop
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _one(
    case: Case, policies: tuple[Policy, ...], rng: Generator, draw_power: DrawPower | None, stop: Event
) -> tuple[Outcome, ...]:
    def hear_stop(_policy: str, _submitted: int) -> None:
        if stop.is_set():
            raise _Stopped

    return compare(shifted(case, rng, draw_power), policies, hear_stop).outcomes


def shifted(case: Case, rng: Generator, draw_power: DrawPower | None = None) -> Case:
    """Return the case with each job submitted 0 to 60 s later, jobs in their new order."""
    submit_s = case.jobs.submit_s + rng.integers(0, LARGEST_SHIFT_S, len(case.jobs), endpoint=True)
    node_power_w = draw_power(rng) if draw_power else case.node_power_w
    order = np.argsort(submit_s, kind="stable")
    jobs = replace(case.jobs, submit_s=submit_s).take(order)
    return replace(case, jobs=jobs, node_power_w=node_power_w[order])
