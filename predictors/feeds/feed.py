"""A feed: sources in order, each answer judged, with the last good series behind them.

Each source has a time limit. The last good series is a text file on disk that is written atomically.
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

from offpeak.errors import CannotWrite, OffpeakError
from offpeak.files import replacing
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.step_series import Series
from predictors.feeds.checks import CheckContext, check_series
from predictors.feeds.port import (
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
    text = _text(kept)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(MARK + b"%08x\n" % zlib.crc32(text) + text)
    except (OSError, CannotWrite) as error:
        return FeedProblem(FeedCondition.CACHE_UNWRITABLE, "cache", f"{path}: {error}")
    return None


def _text(kept: CachedSeries) -> bytes:
    series = kept.series
    values = (repr(value) if known else "" for value, known in zip(series.value.tolist(), series.known, strict=True))
    rows = "".join(f"{start_s},{value}\n" for start_s, value in zip(series.start_s.tolist(), values, strict=True))
    head = f"source,{series.source}\nunit,{series.unit}\nfetched_s,{kept.fetched_s}\nend_s,{series.end_s}\n"
    return f"{head}start_s,value\n{rows}".encode()


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
        published = self._published(kept)
        fresh, source_problems = self._ask(CheckContext(window, self.quantity, self.clock, published))
        if fresh is None or (self.quantity.final and published and known_s(published, window) > known_s(fresh, window)):
            return _from_cache(kept, now_s, window, (*damage, *source_problems))
        failed = write_cache(self.cache, CachedSeries(fresh, now_s))
        problems = (*damage, *source_problems, *((failed,) if failed else ()))
        return KnownSeries(fresh, fresh.source, now_s, 0, fresh=True, problems=problems)

    def _published(self, kept: CachedSeries | None) -> Series | None:
        # Values from the operator's own file cannot validate a market's answer.
        names = {source.name for source in self.sources if not source.own}
        return kept.series if kept and kept.series.source in names else None

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
