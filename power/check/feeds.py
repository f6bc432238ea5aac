"""Whether each feed that the settings name answers for this hour."""

from collections.abc import Iterable

from power.check.finding import Finding, Verdict
from predictors.feeds.feed import Feed
from predictors.feeds.port import KnownSeries, Window

HOUR_S = 3600


def check_feeds(feeds: Iterable[tuple[str, Feed | None]], *, now_s: int) -> list[Finding]:
    """Return a finding a feed, by its name; a feed that no setting asks for is not checked.

    The answers are kept in the feeds' caches, as always.
    """
    window = Window(now_s - now_s % HOUR_S, now_s - now_s % HOUR_S + HOUR_S)
    return [_finding(name, feed.known(window, now_s)) for name, feed in feeds if feed is not None]


def _finding(name: str, known: KnownSeries) -> Finding:
    troubles = "; ".join(map(str, known.troubles))
    hint = known.troubles[0].hint if known.troubles else ""
    if known.series is None:
        return Finding("feed", name, Verdict.BAD, troubles or "knows nothing of this hour", hint)
    said = f"{known.source}: {known.basis}"
    if troubles:
        return Finding("feed", name, Verdict.DOUBTFUL, f"{said}; {troubles}", hint)
    return Finding("feed", name, Verdict.GOOD, said)
