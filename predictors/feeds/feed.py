"""A feed: sources in order, each answer judged, with the last good series behind them.

Each source has a time limit. The last good series is a text file on disk that is written atomically. Where it and a new
series overlap, a difference shows a shifted clock, or another auction or zone.
"""

import asyncio
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from offpeak.display import utc_minute_text
from offpeak.errors import CannotWrite, OffpeakError
from offpeak.files import replacing
from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.local_time import to_local_s
from offpeak.model.step_series import Series, merge, split
from offpeak.model.zones import offset_at
from offpeak.predictors.feeds.port import (
    INCOMPLETE,
    FeedCondition,
    FeedProblem,
    FeedQuantity,
    FeedSource,
    KnownSeries,
    SourceAnswer,
    Window,
    clip_series,
    known_s,
)

# Fewer common hours prove nothing.
HOURS_NEEDED = 12
# What rounding and the mean of quarter-hours may change in an hour's value.
ABSOLUTE, RELATIVE = 0.05, 0.01
DISAGREEING_SHARE = 0.1
# A shift must explain nearly all of the difference.
EXPLAINED = 0.1


def hourly(series: Series, first_h: int, hours: int) -> Float64:
    """Return the mean of each of the hours since `first_h` [Unix h]; NaN where any of the hour is unknown."""
    edges_s = HOUR_S * np.arange(first_h, first_h + hours + 1, dtype=np.int64)
    cut = split(series, edges_s)
    hour = cut.start_s // HOUR_S - first_h
    inside = (hour >= 0) & (hour < hours)
    length_s = np.bincount(hour[inside], cut.length_s[inside], hours)
    total = np.bincount(hour[inside], (cut.value * cut.length_s)[inside], hours)
    return np.where(length_s == HOUR_S, total / HOUR_S, np.nan)


def difference(new: Series, last: Series, shift_h: int = 0) -> Float64:
    """Return by how much they differ in each hour that both know, if the new one's clock is `shift_h` ahead.

    Each is counted in units of what rounding could make of it: more than 1 is a difference.
    """
    first_h = int(last.start_s[0]) // HOUR_S
    hours = -(-last.end_s // HOUR_S) - first_h
    was, published = hourly(last, first_h, hours), hourly(new, first_h + shift_h, hours)
    apart = np.abs(published - was) / (ABSOLUTE + RELATIVE * np.abs(was))
    return apart[~np.isnan(apart)]


def shift_h(new: Series, last: Series, candidates: frozenset[int]) -> int:
    """Return by how many hours the new one's clock is ahead of the last good one's, of the candidates; else 0."""
    as_stamped = difference(new, last)
    if len(as_stamped) < HOURS_NEEDED or as_stamped.mean() <= 1:
        return 0
    shifted = {hours: difference(new, last, hours) for hours in candidates if hours}
    errors = {hours: apart.mean() for hours, apart in shifted.items() if len(apart) >= HOURS_NEEDED}
    best = min(errors, key=lambda hours: errors[hours], default=0)
    return best if best and errors[best] < EXPLAINED * as_stamped.mean() else 0


def contradicts(new: Series, last: Series) -> bool:
    """Return whether more than a few of the common hours have another value."""
    apart = difference(new, last)
    return len(apart) >= HOURS_NEEDED and bool(np.mean(apart > 1) > DISAGREEING_SHARE)


STEPS_S = (900, 1800, 3600)
# What sensors and programs write where they know nothing.
SENTINELS = (-127.0, -999.0, -9999.0, -32768.0, 999.0, 9999.0, 32767.0, 65535.0, 99999.0)
NEAR, NEAR_SHARE = 50.0, 0.05
FLAT_S = 23 * HOUR_S


@dataclass(frozen=True)
class CheckContext:
    """The request to a source; `clock` is the time zone of the market's days, `last` the last good series if any."""

    window: Window
    quantity: FeedQuantity
    clock: tzinfo
    last: Series | None = None


Check = Callable[[Series, CheckContext], tuple[FeedCondition, str] | None]


def check_series(series: Series, context: CheckContext, *, own: bool) -> FeedProblem | None:
    """Return the first thing that is wrong with the series, None if it can be believed and covers the window.

    The operator's `own` files and rules may be flat, of any step, and other than yesterday.
    """
    for check in OF_ALL if own else OF_ALL + OF_PUBLISHED + LAST:
        if found := check(series, context):
            return FeedProblem(found[0], series.source, found[1])
    from_s, until_s = context.window
    missing_s = until_s - from_s - known_s(series, context.window)
    if missing_s == 0:
        return None
    part = clip_series(series, context.window)
    end_s = from_s if part is None or not part.known.any() else int((part.start_s + part.length_s)[part.known][-1])
    if missing_s == until_s - end_s and _is_edge(end_s, context):
        return FeedProblem(FeedCondition.NOT_YET_PUBLISHED, series.source, f"ends at {utc_minute_text(end_s)}")
    return FeedProblem(
        FeedCondition.HALF_MISSING, series.source, f"{missing_s / HOUR_S:g} h of {(until_s - from_s) / HOUR_S:g} h"
    )


def _unit(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    if series.unit == context.quantity.unit:
        return None
    return FeedCondition.WRONG_CURRENCY, f"answers in {series.unit}, asked for {context.quantity.unit}"


def _limits(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    low, high, unit = context.quantity.low, context.quantity.high, context.quantity.unit
    outside = (series.value < low) | (series.value > high)
    if not outside.any():
        return None
    worst = series.value[outside][0]
    return FeedCondition.IMPLAUSIBLE, f"{worst:g} {unit} at {_when(series, outside)} is outside {low:g} to {high:g}"


def _sentinels(series: Series, _: CheckContext) -> tuple[FeedCondition, str] | None:
    marked = np.isin(series.value, SENTINELS)
    others = series.value[series.known & ~marked]
    for value in np.unique(series.value[marked]):
        # A true price of -127 has similar prices around it, and a load of 9999 MW has similar loads.
        if len(others) == 0 or np.abs(others - value).min() > max(NEAR, NEAR_SHARE * abs(value)):
            return FeedCondition.IMPLAUSIBLE, f"{value:g} at {_when(series, series.value == value)} stands for no value"
    return None


def _steps(series: Series, _: CheckContext) -> tuple[FeedCondition, str] | None:
    odd = series.known & ~np.isin(series.length_s, STEPS_S)
    if not odd.any():
        return None
    return FeedCondition.IMPLAUSIBLE, f"a value holds for {series.length_s[odd][0]} s, not for 15, 30 or 60 min"


def _flat(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    long = merge(series)
    flat = long.known & (long.length_s >= FLAT_S)
    if not (context.quantity.final and flat.any()):
        return None
    return FeedCondition.IMPLAUSIBLE, f"{long.value[flat][0]:g} all day from {_when(long, flat)}"


def _shifted(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    ahead_h = round(offset_at(context.window.from_s, context.clock) / HOUR_S)
    late_s = int(series.start_s[0]) - context.window.from_s
    hours = late_s // HOUR_S if late_s == series.end_s - context.window.until_s == ahead_h * HOUR_S else 0
    if not hours and context.last is not None:
        hours = shift_h(series, context.last, frozenset({-2, -1, 1, 2, ahead_h, -ahead_h}))
    return (FeedCondition.SHIFTED_CLOCK, f"its times are {hours:+d} h off") if hours else None


def _other(series: Series, context: CheckContext) -> tuple[FeedCondition, str] | None:
    if context.last is None or not (context.quantity.final and contradicts(series, context.last)):
        return None
    return FeedCondition.WRONG_AUCTION, f"differs from what {context.last.source} published for the same hours"


OF_ALL: tuple[Check, ...] = (_unit, _limits, _sentinels)
OF_PUBLISHED: tuple[Check, ...] = (_steps, _flat)
LAST: tuple[Check, ...] = (_shifted, _other)


def _is_edge(end_s: int, context: CheckContext) -> bool:
    """Return whether a publication may end there: an auction's at midnight, a forecast's anywhere."""
    midnight = int(to_local_s(np.array([end_s], np.int64), context.clock)[0]) % DAY_S == 0
    return midnight or end_s == context.window.from_s or not context.quantity.final


def _when(series: Series, which: NDArray[np.bool_]) -> str:
    return utc_minute_text(int(series.start_s[which][0]))


LEFT_BEHIND = 3
"""A source with this many abandoned requests in progress gets no other request."""

Result = TypeVar("Result")


async def fetched(fetch: Callable[[], Result]) -> Result:
    """Return what `fetch` returns, which runs in a daemon thread of its own.

    If it is cancelled, the thread runs on: neither the end of the program nor another thread waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def finish(result: Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = fetch()
        except BaseException as problem:
            error = problem
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, result, error)

    Thread(target=run, daemon=True, name="fetch").start()
    return await done


def fetch_within(source: FeedSource, window: Window, limit_s: float) -> SourceAnswer:
    """Return the answer of the source, or HANGING after `limit_s`; the thread then ends by itself."""
    name = f"feed {source.name}"
    if sum(thread.name == name for thread in threading.enumerate()) >= LEFT_BEHIND:
        return FeedProblem(FeedCondition.HANGING, source.name, f"{LEFT_BEHIND} questions are still open")
    answers: SimpleQueue[SourceAnswer] = SimpleQueue()
    # A daemon thread, so that the program can end while a library hangs.
    Thread(target=_fetch, args=(source, window, answers), daemon=True, name=name).start()
    try:
        return answers.get(timeout=limit_s)
    except Empty:
        return FeedProblem(FeedCondition.HANGING, source.name, f"nothing after {limit_s:g} s")


def _fetch(source: FeedSource, window: Window, answers: SimpleQueue[SourceAnswer]) -> None:
    try:
        answers.put(source.fetch(window))
    except Exception as error:
        # Libraries raise any exception, and its text may contain a key.
        answers.put(FeedProblem(FeedCondition.GARBAGE, source.name, f"failed with {type(error).__name__}"))


MARK = b"# offpeak feed cache 1, crc32 "


@dataclass(frozen=True, eq=False)
class CachedSeries:
    """A good series and when it was fetched [Unix s]."""

    series: Series
    fetched_s: int


def write_cache(path: Path, kept: CachedSeries) -> FeedProblem | None:
    """Replace the file. On failure return the problem and keep the old file."""
    series = kept.series
    values = (repr(value) if known else "" for value, known in zip(series.value.tolist(), series.known, strict=True))
    rows = "".join(f"{start_s},{value}\n" for start_s, value in zip(series.start_s.tolist(), values, strict=True))
    head = f"source,{series.source}\nunit,{series.unit}\nfetched_s,{kept.fetched_s}\nend_s,{series.end_s}\n"
    text = f"{head}start_s,value\n{rows}".encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(MARK + b"%08x\n" % zlib.crc32(text) + text)
    except (OSError, CannotWrite) as error:
        return FeedProblem(FeedCondition.CACHE_UNWRITABLE, "cache", f"{path}: {error}")
    return None


def read_cache(path: Path) -> CachedSeries | FeedProblem | None:
    """Return the cached series, None if there is none."""
    try:
        mark, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        return FeedProblem(FeedCondition.CACHE_DAMAGED, "cache", f"{path}: {error.strerror}")
    if mark != MARK + b"%08x" % zlib.crc32(text):
        return FeedProblem(FeedCondition.CACHE_DAMAGED, "cache", f"{path}: its checksum is wrong")
    try:
        return _parse_cache(text.decode().split("\n")[:-1])
    except (ValueError, IndexError, OffpeakError) as error:
        return FeedProblem(FeedCondition.CACHE_DAMAGED, "cache", f"{path}: {error}")


def _parse_cache(lines: list[str]) -> CachedSeries:
    source, unit, fetched_s, end_s = (line.split(",", 1)[1] for line in lines[:4])
    rows = [line.split(",") for line in lines[5:]]
    start = np.array([int(start_s) for start_s, _ in rows], np.int64)
    value = np.array([float(value) if value else np.nan for _, value in rows])
    return CachedSeries(Series(start, int(end_s), value, unit, source), int(fetched_s))


@dataclass(frozen=True)
class Feed:
    """One quantity from several sources; the market's days begin on `clock`, `cache` is a file of this feed alone.

    The sources are asked for the part of a window within their common `reach`, which counts from now; None: for all.
    """

    sources: tuple[FeedSource, ...]
    cache: Path
    quantity: FeedQuantity
    clock: tzinfo
    limit_s: float = 60.0
    reach: Window | None = None

    def known(self, window: Window, now_s: int) -> KnownSeries:
        """Return the series of the first source with a good and complete answer, else the one that covers most of the
        window.

        This may be an answer with missing values, or the last good series from the cache; cached values that are not
        final, or that come from the operator's own file, are used only without a new answer. Never raises: failures are
        in `problems`.
        """
        if self.reach is not None:
            hour_s = now_s - now_s % HOUR_S
            near = Window(
                max(window.from_s, hour_s + self.reach.from_s), min(window.until_s, hour_s + self.reach.until_s)
            )
            if near.from_s >= near.until_s:
                beyond = f"it knows {-self.reach.from_s // DAY_S} days back and {self.reach.until_s // DAY_S} ahead"
                return KnownSeries(problems=(FeedProblem(FeedCondition.HALF_MISSING, self.sources[0].name, beyond),))
            window = near
        kept, damage = _usable(read_cache(self.cache), self.quantity)
        # Values from the operator's own file cannot validate a market's answer.
        names = {source.name for source in self.sources if not source.own}
        published = kept.series if kept and kept.series.source in names else None
        fresh, source_problems = self._ask(CheckContext(window, self.quantity, self.clock, published))
        if fresh is None or (self.quantity.final and published and known_s(published, window) > known_s(fresh, window)):
            return _from_cache(kept, now_s, window, (*damage, *source_problems))
        failed = write_cache(self.cache, CachedSeries(fresh, now_s))
        problems = (*damage, *source_problems, *((failed,) if failed else ()))
        return KnownSeries(fresh, fresh.source, now_s, 0, fresh=True, problems=problems)

    def _ask(self, context: CheckContext) -> tuple[Series | None, list[FeedProblem]]:
        best: Series | None = None
        problems: list[FeedProblem] = []
        for source in self.sources:
            answer = fetch_within(source, context.window, self.limit_s)
            problem = answer if isinstance(answer, FeedProblem) else check_series(answer, context, own=source.own)
            if problem:
                problems.append(replace(problem, source=source.name))
            if isinstance(answer, Series) and (problem is None or problem.condition in INCOMPLETE):
                part = clip_series(answer, context.window)
                best = part if known_s(part, context.window) > known_s(best, context.window) else best
            if problem is None:
                break
        return best, problems


def _usable(
    read: CachedSeries | FeedProblem | None, quantity: FeedQuantity
) -> tuple[CachedSeries | None, tuple[FeedProblem, ...]]:
    if isinstance(read, FeedProblem):
        return None, (read,)
    if read and read.series.unit != quantity.unit:
        detail = f"it holds {read.series.unit}, asked for {quantity.unit}"
        return None, (FeedProblem(FeedCondition.WRONG_CURRENCY, "cache", detail),)
    return read, ()


def _from_cache(
    kept: CachedSeries | None, now_s: int, window: Window, problems: tuple[FeedProblem, ...]
) -> KnownSeries:
    part = clip_series(kept.series, window) if kept else None
    if kept is None or part is None:
        return KnownSeries(problems=problems)
    age_s = max(0, now_s - kept.fetched_s)
    return KnownSeries(part, part.source, kept.fetched_s, age_s, problems=problems)
