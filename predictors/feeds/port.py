"""The port of every feed: a source returns a series for a window of time, or the problem that prevents it.

It also defines the problems, each with its name and a hint for the operator, the quantities with their units and
plausible ranges, and the conversion of an answer's rows (times, values, gaps) into a series.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from offpeak.installation import install_hint
from offpeak.model.arrays import Int64
from offpeak.model.constants import HOUR_S
from offpeak.model.step_series import Series, series_of_rows, split, usual_lengths


class FeedCondition(StrEnum):
    """The named conditions; the value is how people read them."""

    NO_KEY = "no key"
    KEY_REFUSED = "key refused"
    TOKEN_REFUSED = "token refused"
    CLIENT_REFUSED = "client refused"
    NOT_INSTALLED = "not installed"
    NO_NETWORK = "no network"
    REFUSED = "connection refused"
    UNTRUSTED = "certificate not trusted"
    HANGING = "no answer in time"
    UNAVAILABLE = "service unavailable"
    TOO_MANY = "too many requests"
    GARBAGE = "unreadable answer"
    UNREADABLE_FILE = "unreadable file"
    WRONG_ZONE = "wrong zone"
    WRONG_AUCTION = "wrong auction"
    WRONG_CURRENCY = "wrong currency or unit"
    SHIFTED_CLOCK = "local time stamped as UTC"
    IMPLAUSIBLE = "implausible values"
    HALF_MISSING = "values missing"
    NOT_YET_PUBLISHED = "not yet published"
    TOO_OLD = "known prices too old to forecast from"
    WORSE = "worse than the prices of the week before"
    CACHE_DAMAGED = "cache damaged"
    CACHE_UNWRITABLE = "cache cannot be written"


HINTS: Mapping[FeedCondition, str] = MappingProxyType(
    {
        FeedCondition.NO_KEY: "put the key into the file that feeds.key_file names, and `chmod 600` it",
        FeedCondition.KEY_REFUSED: "ask the service for a new key, or for this zone in your plan",
        FeedCondition.TOKEN_REFUSED: (
            "tokens end: put a new one into its file, or set openadr_client_id and openadr_client_secret in [plan], "
            "with which offpeak fetches tokens"
        ),
        FeedCondition.CLIENT_REFUSED: (
            "compare client ID, secret, openadr_scope and openadr_token_url with what the server's operator gave you"
        ),
        FeedCondition.NOT_INSTALLED: "install what the message names",
        FeedCondition.NO_NETWORK: "check the cable, the name server and https_proxy; try `curl -I` to the host",
        FeedCondition.REFUSED: "check the firewall and the address; try `curl -I` to the host",
        FeedCondition.UNTRUSTED: (
            "set REQUESTS_CA_BUNDLE to the certificates of your proxy, and check this machine's date"
        ),
        FeedCondition.HANGING: "it is asked again later; raise feeds.timeout if that is usual",
        FeedCondition.UNAVAILABLE: "it is asked again later; name a second source in [feeds], unless it is an input",
        FeedCondition.TOO_MANY: "it is asked again when the service allows it; does another program use the same key?",
        FeedCondition.GARBAGE: "open the address in a browser: a login page or a changed interface?",
        FeedCondition.UNREADABLE_FILE: "correct the file that the message names",
        FeedCondition.WRONG_ZONE: "check feeds.zone and feeds.place",
        FeedCondition.WRONG_AUCTION: "compare with the exchange's page; if the cache is what is wrong, remove its file",
        FeedCondition.WRONG_CURRENCY: "set feeds.currency to what the prices are in; other values need another source",
        FeedCondition.SHIFTED_CLOCK: "use another source until this one is put right; tell its operator",
        FeedCondition.IMPLAUSIBLE: "compare with the exchange's page; use another source until this one is put right",
        FeedCondition.HALF_MISSING: "name a second source in [feeds] (not of an input); missing prices are forecast",
        FeedCondition.NOT_YET_PUBLISHED: "nothing: it is asked again soon",
        FeedCondition.TOO_OLD: "append newer prices; --from the day on which they end forecasts from there",
        FeedCondition.WORSE: "check whether recent prices of the feed are those of the exchange's page",
        FeedCondition.CACHE_DAMAGED: "nothing: the next good answer replaces it",
        FeedCondition.CACHE_UNWRITABLE: "let the service's user write to feeds.cache; try `df` and `ls -ld` there",
    }
)

INCOMPLETE = frozenset({FeedCondition.HALF_MISSING, FeedCondition.NOT_YET_PUBLISHED})
"""The conditions under which the values at hand stay usable."""


@dataclass(frozen=True)
class FeedProblem:
    """One condition of one source: `detail` says what and where, `extra` what must be installed, "" if nothing.

    `status` is that of the answer, 0 without one.
    """

    condition: FeedCondition
    source: str
    detail: str
    extra: str = ""
    status: int = 0

    @property
    def hint(self) -> str:
        """The remedy."""
        return install_hint(self.extra) if self.extra else HINTS[self.condition]

    def __str__(self) -> str:
        return f"{self.source}: {self.condition}: {self.detail}"


@dataclass(frozen=True)
class FeedQuantity:
    """A quantity; `low` and `high` are in `unit`. A `final` value, such as the price of an auction, never changes."""

    unit: str
    low: float
    high: float
    final: bool


CARBON = FeedQuantity("g/kWh", 0.0, 2000.0, final=False)
OUTSIDE_TEMPERATURE = FeedQuantity("degC", -70.0, 60.0, final=False)

# Wide enough for what exchanges allow: the European day-ahead limits are -500 and 4000 EUR/MWh and may be raised by
# steps of 1000; ERCOT's cap was 9000 USD/MWh until 2021.
PRICE_LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "EUR": (-600.0, 6000.0),
        "CHF": (-600.0, 6000.0),
        "GBP": (-600.0, 6000.0),
        "USD": (-2000.0, 9500.0),
        "DKK": (-5000.0, 45_000.0),
        "NOK": (-8000.0, 75_000.0),
        "SEK": (-8000.0, 75_000.0),
        "PLN": (-3000.0, 27_000.0),
    }
)
ANY_PRICE = (-1e5, 1e6)


def price_quantity(currency: str) -> FeedQuantity:
    """Return the quantity of an auction's price."""
    low, high = PRICE_LIMITS.get(currency, ANY_PRICE)
    return FeedQuantity(f"{currency}/MWh", low, high, final=True)


SourceAnswer = Series | FeedProblem


class Window(NamedTuple):
    """The requested time [Unix s], without `until_s`."""

    from_s: int
    until_s: int


class FeedSource(Protocol):
    """One source of values. It holds the place of its key, not the key."""

    @property
    def name(self) -> str:
        """The name in settings and messages."""
        ...

    @property
    def own(self) -> bool:
        """Whether the source is a file or rule of the operator, whose values may change and differ from a market."""
        ...

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the values of the window, perhaps with more around it. A failure is returned."""
        ...


@dataclass(frozen=True)
class KnownSeries:
    """The known series of a feed over a window; `series` is None without any value.

    `source` is its origin and `fetched_s` the time; `fresh` if it was fetched just now, otherwise it is the last good
    series from the cache, `age_s` old. `problems` are the conditions of all sources that were tried.
    """

    series: Series | None = None
    source: str = ""
    fetched_s: int = 0
    age_s: int = 0
    fresh: bool = False
    problems: tuple[FeedProblem, ...] = ()

    @property
    def basis(self) -> str:
        """The basis of the values as text: "published" or "cached 5 h"."""
        if self.fresh:
            return "published"
        return f"cached {self.age_s // HOUR_S} h" if self.age_s >= HOUR_S else f"cached {self.age_s // 60} min"


def build_series(
    source: str, unit: str, start_s: Sequence[int], value: Sequence[float | None], *, length_s: Int64 | None = None
) -> SourceAnswer:
    """Return the rows as a series; None and the time between two rows that are further apart than usual are gaps.

    `length_s` [s] is the duration of each row if the answer has it.
    """
    start = np.array(start_s, np.int64)
    if len(start) != len(value):
        return FeedProblem(FeedCondition.GARBAGE, source, f"{len(start)} times but {len(value)} values")
    if len(start) == 0:
        return FeedProblem(FeedCondition.NOT_YET_PUBLISHED, source, "the answer holds no values")
    if np.any(np.diff(start) <= 0):
        return FeedProblem(FeedCondition.GARBAGE, source, "the times of the answer do not rise")
    lengths = usual_lengths(start) if length_s is None else length_s
    if np.any(lengths <= 0) or np.any(start[1:] < (start + lengths)[:-1]):
        return FeedProblem(FeedCondition.GARBAGE, source, "the answer does not tell how long its values hold")
    return series_of_rows(start, lengths, np.array(value, np.float64), unit=unit, source=source)


def clip_series(series: Series, window: Window) -> Series | None:
    """Return the part of the series inside the window, None if there is none."""
    cut = split(series, np.array(window, np.int64))
    inside = (cut.start_s >= window.from_s) & (cut.start_s < window.until_s)
    if not inside.any():
        return None
    end_s = min(series.end_s, window.until_s)
    return Series(cut.start_s[inside], end_s, cut.value[inside], series.unit, series.source)


def known_s(series: Series | None, window: Window) -> int:
    """Return how many seconds of the window have a value."""
    part = None if series is None else clip_series(series, window)
    return 0 if part is None else int(part.length_s[part.known].sum())
