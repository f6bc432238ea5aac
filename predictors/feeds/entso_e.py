"""Day-ahead prices and forecasts of load, wind and solar power from the ENTSO-E transparency platform. Needs a key.

entsoe-py, which asks and parses, drops unit, auction and zone of the answer, and mixes the auctions of one day, so the
session also parses the text, and hands on the first auction (the platform calls it a sequence). It needs the extra
`feeds-entsoe`; pandas, which that brings, is used in this file only.
"""

import io
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import requests

from offpeak.model.constants import DAY_S
from offpeak.model.step_series import Series, value_at
from offpeak.predictors.feeds.port import (
    FeedCondition,
    FeedProblem,
    FeedQuantity,
    SourceAnswer,
    Window,
    build_series,
    price_quantity,
)
from offpeak.predictors.feeds.web import TIMEOUT_S, KeyLocation, read_key, request_problem, status_problem
from offpeak.web_session import WebSession

DAY_AHEAD, MEGAWATT = "A01", "MAW"
TAGS = {
    "currency_Unit.name": FeedCondition.WRONG_CURRENCY,
    "quantity_Measure_Unit.name": FeedCondition.WRONG_CURRENCY,
    "contract_MarketAgreement.type": FeedCondition.WRONG_AUCTION,
    "process.processType": FeedCondition.WRONG_AUCTION,
    "out_Domain.mRID": FeedCondition.WRONG_ZONE,
    "outBiddingZone_Domain.mRID": FeedCondition.WRONG_ZONE,
    "inBiddingZone_Domain.mRID": FeedCondition.WRONG_ZONE,
}
"""The tags of an answer that are compared with the question, and what another text is."""
_TAG = re.compile(rf"<({'|'.join(map(re.escape, TAGS))})[^>]*>([^<]*)<")

_OF_PRICES = "<type>A44</type>"
_SERIES = re.compile(r"<TimeSeries>.*?</TimeSeries>\s*", re.DOTALL)
_SEQUENCE = re.compile(r"<classificationSequence_AttributeInstanceComponent\.position>\s*(\d+)\s*<")
_PERIOD = re.compile(r"<start>([^<]*)</start>\s*<end>([^<]*)</end>\s*</timeInterval>\s*<resolution>([^<]*)<")


@dataclass(frozen=True)
class EntsoEDocument:
    """One kind of data: the method of entsoe-py's client that asks for it, and what its tags must hold."""

    query: str
    quantity: FeedQuantity
    zone_tag: str
    tags: Mapping[str, str]


def day_ahead_prices(currency: str) -> EntsoEDocument:
    """Return the document of day-ahead prices."""
    tags = {"currency_Unit.name": currency, "contract_MarketAgreement.type": DAY_AHEAD}
    return EntsoEDocument("query_day_ahead_prices", price_quantity(currency), "out_Domain.mRID", tags)


# No zone is without load; a forecast of wind and solar power may subtract what the plants use themselves.
LOAD, WIND_AND_SOLAR_POWER = (FeedQuantity("MW", low, 200_000.0, final=False) for low in (10.0, -100.0))
_OF_FORECASTS = {"quantity_Measure_Unit.name": MEGAWATT, "process.processType": DAY_AHEAD}
LOAD_FORECAST = EntsoEDocument("query_load_forecast", LOAD, "outBiddingZone_Domain.mRID", _OF_FORECASTS)
WIND_SOLAR_FORECAST = EntsoEDocument(
    "query_wind_and_solar_forecast", WIND_AND_SOLAR_POWER, "inBiddingZone_Domain.mRID", _OF_FORECASTS
)


class NoTimeSeries(Exception):
    """The answer is no document with values, nor does it say that there are none."""


@dataclass(frozen=True)
class EntsoE:
    """One document of one area, by its name in entsoe-py ("DE_LU"); if it has several columns, their sum."""

    area: str
    document: EntsoEDocument
    key: KeyLocation
    url: str = "https://web-api.tp.entsoe.eu/api"
    timeout_s: float = TIMEOUT_S
    name: str = "entso-e"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the area's values around the window."""
        if not self.area:
            return FeedProblem(FeedCondition.WRONG_ZONE, self.name, "does not publish this zone")
        key = read_key(self.key, self.name)
        if isinstance(key, FeedProblem):
            return key
        try:
            entsoe, pandas = import_module("entsoe"), import_module("pandas")
        except ImportError:
            return FeedProblem(FeedCondition.NOT_INSTALLED, self.name, "it needs entsoe-py", extra="feeds-entsoe")
        session = _TagSession(self.url, self.timeout_s)
        client = entsoe.EntsoePandasClient(
            api_key=key, session=session, retry_count=1, retry_delay=0, timeout=self.timeout_s
        )
        # A single row does not tell how long it holds.
        edges_s = window.from_s - DAY_S, window.until_s + DAY_S
        edges = [pandas.Timestamp(edge_s, unit="s", tz="UTC") for edge_s in edges_s]
        # The key is part of the address, which both write down at level DEBUG.
        for name in ("entsoe.entsoe", "urllib3.connectionpool"):
            logging.getLogger(name).addFilter(_above_debug)
        try:
            answer = getattr(client, self.document.query)(self.area, start=edges[0], end=edges[1])
        except requests.HTTPError as error:
            problem = status_problem(self.name, error.response) if error.response is not None else None
            return problem or request_problem(self.name, self.url, error)
        except requests.RequestException as error:
            return request_problem(self.name, self.url, error)
        except Exception as error:
            # The library's exceptions and those of its parsers; their messages may contain the key.
            empty = type(error).__name__ == "NoMatchingDataError"
            condition = FeedCondition.NOT_YET_PUBLISHED if empty else FeedCondition.GARBAGE
            return FeedProblem(condition, self.name, f"entsoe-py: {type(error).__name__}")
        return self._other_tags(session) or self._series(answer)

    def _other_tags(self, session: "_TagSession") -> FeedProblem | None:
        code = import_module("entsoe.mappings").lookup_area(self.area).code
        expected = {**self.document.tags, self.document.zone_tag: code}
        for tag, received in sorted(session.tags):
            if received != (wanted := expected.get(tag, received)):
                return FeedProblem(TAGS[tag], self.name, f"answers for {received[:20]!r}, asked for {wanted}")
        if session.mixed:
            return FeedProblem(FeedCondition.WRONG_AUCTION, self.name, f"has more than one auction: {session.mixed}")
        return None

    def _series(self, answer: Any) -> SourceAnswer:
        columns = [answer] if answer.ndim == 1 else [answer[name] for name in answer.columns]
        parts: list[Series] = []
        for column in columns:
            # Two answers of entsoe-py about neighbouring months both contain the instant between them.
            rows = {round(time.timestamp()): float(value) for time, value in column.dropna().items()}
            part = build_series(self.name, self.document.quantity.unit, list(rows), list(rows.values()))
            if isinstance(part, FeedProblem):
                return part
            parts.append(part)
        return sum_series(parts)


def sum_series(parts: Sequence[Series]) -> Series:
    """Return the sum, which is unknown while one of the parts is; their steps may differ."""
    edges_s = np.unique(np.concatenate([np.append(part.start_s, part.end_s) for part in parts]))
    value = np.sum([value_at(part, edges_s[:-1]) for part in parts], axis=0)
    return Series(edges_s[:-1], int(edges_s[-1]), value, parts[0].unit, parts[0].source)


@dataclass
class _TagSession(WebSession):
    """A session with one address that keeps the tags of the answers, each of which takes at most `timeout_s`.

    Of prices only the first sequence is handed on; `mixed` are series of one time that still differ in their steps.
    """

    address: str
    timeout_s: float
    tags: set[tuple[str, str]] = field(default_factory=set)
    mixed: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def get(self, url: str | bytes, **rest: Any) -> requests.Response:  # noqa: ARG002
        with self.within(self.timeout_s):
            response = super().get(self.address, allow_redirects=False, **rest)
        text = response.text
        if response.ok and "<TimeSeries" not in text and "No matching data found" not in text:
            # A parser of entsoe-py would print a line.
            raise NoTimeSeries
        if _OF_PRICES in text:
            text = _first_sequence(text)
            self.mixed = self.mixed or _mixed_steps(text)
            response = _with_text(response, text)
        self.tags.update(_TAG.findall(text))
        return response


def _first_sequence(text: str) -> str:
    """Return the document without the series of later sequences, or as it is if it has no first one."""
    sequences = {match[1] for series in _SERIES.findall(text) if (match := _SEQUENCE.search(series))}
    if "1" not in sequences:
        return text

    def kept(series: re.Match[str]) -> str:
        sequence = _SEQUENCE.search(series[0])
        return series[0] if sequence is None or sequence[1] == "1" else ""

    return _SERIES.sub(kept, text)


def _mixed_steps(text: str) -> str:
    """Return the steps of periods that overlap and have others, such as "PT15M and PT60M", "" for none."""
    for before, after in pairwise(sorted(_PERIOD.findall(text))):
        if after[0] < before[1] and after[2] != before[2]:
            return f"{before[2]} and {after[2]}"
    return ""


def _with_text(response: requests.Response, text: str) -> requests.Response:
    changed = requests.Response()
    changed.status_code, changed.url, changed.headers = response.status_code, response.url, response.headers
    changed.raw, changed.encoding = io.BytesIO(text.encode()), "utf-8"
    return changed


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG
