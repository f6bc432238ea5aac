"""Day-ahead prices from the ENTSO-E transparency platform, through entsoe-py. Needs a key.

entsoe-py drops currency, auction and zone of the answer, so the session also parses the text. Needs the extra
`feeds-entsoe`; pandas, which it brings, is used in this file only.
"""

import logging
import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import requests

from offpeak.web_session import WebSession
from predictors.feeds.port import FeedCondition, FeedProblem, SourceAnswer, Window, build_series
from predictors.feeds.web import TIMEOUT_S, KeyLocation, read_key, request_problem, status_problem

DAY_AHEAD = "A01"
_TAG = re.compile(r"<(currency_Unit\.name|contract_MarketAgreement\.type|out_Domain\.mRID)[^>]*>([^<]*)<")


@dataclass(frozen=True)
class EntsoE:
    """Prices of one area, by its name in entsoe-py ("DE_LU")."""

    area: str
    currency: str
    key: KeyLocation
    url: str = "https://web-api.tp.entsoe.eu/api"
    timeout_s: float = TIMEOUT_S
    name: str = "entso-e"
    own: bool = False

    def fetch(self, window: Window) -> SourceAnswer:
        """Return the area's prices around the window."""
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
        return self._query(client, session, [pandas.Timestamp(edge_s, unit="s", tz="UTC") for edge_s in window])

    def _query(self, client: Any, session: "_TagSession", edges: list[Any]) -> SourceAnswer:
        _keep_keys_out_of_logs()
        try:
            prices = client.query_day_ahead_prices(self.area, start=edges[0], end=edges[1])
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
        return self._other_tags(session) or self._series(prices)

    def _other_tags(self, session: "_TagSession") -> FeedProblem | None:
        code = import_module("entsoe.mappings").lookup_area(self.area).code
        expected = {
            "currency_Unit.name": (self.currency, FeedCondition.WRONG_CURRENCY),
            "contract_MarketAgreement.type": (DAY_AHEAD, FeedCondition.WRONG_AUCTION),
            "out_Domain.mRID": (code, FeedCondition.WRONG_ZONE),
        }
        for tag, received in sorted(session.tags):
            wanted, condition = expected[tag]
            if received != wanted:
                return FeedProblem(condition, self.name, f"answers for {received[:20]!r}, asked for {wanted}")
        return None

    def _series(self, prices: Any) -> SourceAnswer:
        start_s = [round(time.timestamp()) for time in prices.index]
        values = [None if price != price else float(price) for price in prices]
        return build_series(self.name, f"{self.currency}/MWh", start_s, values)


@dataclass
class _TagSession(WebSession):
    """A session with one address that keeps the tags of the answer, which takes at most `timeout_s`."""

    address: str
    timeout_s: float
    tags: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def get(self, url: str | bytes, **rest: Any) -> requests.Response:  # noqa: ARG002
        with self.within(self.timeout_s):
            response = super().get(self.address, allow_redirects=False, **rest)
        self.tags.update(_TAG.findall(response.text))
        return response


def _keep_keys_out_of_logs() -> None:
    # The key is part of the address, which both write down at level DEBUG.
    for name in ("entsoe.entsoe", "urllib3.connectionpool"):
        logging.getLogger(name).addFilter(_above_debug)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG
