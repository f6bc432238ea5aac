"""A feed: sources in order, each judged, the last good series behind them."""

from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path

from offpeak.model.step_series import Series
from predictors.feeds.bounded import fetch_within
from predictors.feeds.cache import Kept, read_kept, write_kept
from predictors.feeds.checks import Asked, verdict
from predictors.feeds.condition import INCOMPLETE, Condition, Trouble
from predictors.feeds.port import Known, Source, Window
from predictors.feeds.quantities import Quantity
from predictors.feeds.rows import clipped, known_s


@dataclass(frozen=True)
class Feed:
    """One quantity from several sources; the market's days begin on `clock`, `cache` is a file of this feed alone."""

    sources: tuple[Source, ...]
    cache: Path
    quantity: Quantity
    clock: tzinfo
    limit_s: float = 60.0

    def known(self, window: Window, now_s: int) -> Known:
        """Return what the first source with a good and whole answer says, else what covers most of the window.

        That may be an answer with values missing, or the last good series from the cache; an old value of what is not
        final, or that the operator's own file said, is used only without a new answer. Never raises: what failed is in
        `troubles`.
        """
        kept, damage = _usable(read_kept(self.cache), self.quantity)
        published = self._published(kept)
        fresh, troubles = self._ask(Asked(window, self.quantity, self.clock, published))
        if fresh is None or (self.quantity.final and published and known_s(published, window) > known_s(fresh, window)):
            return _from_cache(kept, now_s, window, (*damage, *troubles))
        failed = write_kept(self.cache, Kept(fresh, now_s))
        said = (*damage, *troubles, *((failed,) if failed else ()))
        return Known(fresh, fresh.source, now_s, 0, fresh=True, troubles=said)

    def _published(self, kept: Kept | None) -> Series | None:
        # What the operator's own file said does not tell whether a market's answer is right.
        names = {source.name for source in self.sources if not source.own}
        return kept.series if kept and kept.series.source in names else None

    def _ask(self, asked: Asked) -> tuple[Series | None, list[Trouble]]:
        best: Series | None = None
        troubles: list[Trouble] = []
        for source in self.sources:
            answer = fetch_within(source, asked.window, self.limit_s)
            trouble = answer if isinstance(answer, Trouble) else verdict(answer, asked, own=source.own)
            if trouble:
                troubles.append(replace(trouble, source=source.name))
            if isinstance(answer, Series) and (trouble is None or trouble.condition in INCOMPLETE):
                part = clipped(answer, asked.window)
                best = part if known_s(part, asked.window) > known_s(best, asked.window) else best
            if trouble is None:
                break
        return best, troubles


def _usable(read: Kept | Trouble | None, quantity: Quantity) -> tuple[Kept | None, tuple[Trouble, ...]]:
    if isinstance(read, Trouble):
        return None, (read,)
    if read and read.series.unit != quantity.unit:
        detail = f"it holds {read.series.unit}, asked for {quantity.unit}"
        return None, (Trouble(Condition.WRONG_CURRENCY, "cache", detail),)
    return read, ()


def _from_cache(kept: Kept | None, now_s: int, window: Window, troubles: tuple[Trouble, ...]) -> Known:
    part = clipped(kept.series, window) if kept else None
    if kept is None or part is None:
        return Known(troubles=troubles)
    age_s = max(0, now_s - kept.fetched_s)
    return Known(part, part.source, kept.fetched_s, age_s, troubles=troubles)
