"""The port of every feed: a source is asked for a window of time and answers with a series or says what is wrong."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from offpeak.model.step_series import Series
from predictors.feeds.condition import Trouble

Answer = Series | Trouble


class Window(NamedTuple):
    """The time that is wanted [Unix s], `until_s` not included."""

    from_s: int
    until_s: int


class Source(Protocol):
    """One place that values come from. It carries no key, only where the key is kept."""

    @property
    def name(self) -> str:
        """What settings and messages call it."""
        ...

    @property
    def own(self) -> bool:
        """Whether it is the operator's own file or rule: what it says may change and need not look like a market."""
        ...

    def fetch(self, window: Window) -> Answer:
        """Return what it has of the window, and perhaps more around it. Never raises for what the world does."""
        ...


@dataclass(frozen=True)
class Known:
    """What a feed knows of a window; `series` is None if nothing at all is.

    `source` is who said it and `fetched_s` when; `fresh` if that was just now, otherwise it is the last good series,
    from the cache, `age_s` old. `troubles` are the conditions of everything that was tried.
    """

    series: Series | None = None
    source: str = ""
    fetched_s: int = 0
    age_s: int = 0
    fresh: bool = False
    troubles: tuple[Trouble, ...] = ()

    @property
    def basis(self) -> str:
        """What a value of the series rests on, in words: "published" or "cached 5 h"."""
        if self.fresh:
            return "published"
        return f"cached {self.age_s // 3600} h" if self.age_s >= 3600 else f"cached {self.age_s // 60} min"
