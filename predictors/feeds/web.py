"""One HTTP GET, bounded as a whole, and what is wrong when it brings nothing: never an exception."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import ReadTimeoutError

from offpeak.web_session import WebSession, read_body
from predictors.feeds.condition import Condition, Trouble

ENOUGH_BYTES = 16 * 1024 * 1024
LONGEST_RETRY_S = 86_400
TIMEOUT_S = 20.0

# In this order, because a time-out to connect is a failed connection too.
CAUSES: tuple[tuple[type[BaseException], Condition], ...] = (
    (requests.Timeout, Condition.HANGING),
    (ReadTimeoutError, Condition.HANGING),
    (requests.exceptions.SSLError, Condition.UNTRUSTED),
    (ConnectionRefusedError, Condition.REFUSED),
    (ConnectionResetError, Condition.UNAVAILABLE),
    (requests.exceptions.ChunkedEncodingError, Condition.UNAVAILABLE),
    (requests.ConnectionError, Condition.NO_NETWORK),
)
STATUSES: Mapping[int, Condition] = {
    204: Condition.NOT_YET_PUBLISHED,
    401: Condition.KEY_REFUSED,
    403: Condition.KEY_REFUSED,
    400: Condition.WRONG_ZONE,
    404: Condition.WRONG_ZONE,
    422: Condition.WRONG_ZONE,
    408: Condition.HANGING,
    429: Condition.TOO_MANY,
}


@dataclass(frozen=True)
class Ask:
    """What is asked for, and on behalf of which source; headers may hold a key and are not shown.

    The whole answer is to be there within `timeout_s`.
    """

    source: str
    url: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = TIMEOUT_S


def get(ask: Ask) -> bytes | Trouble:
    """Return the body of an answer of status 200. Redirections are not followed: they would take the key along."""
    try:
        with (
            WebSession() as session,
            session.within(ask.timeout_s),
            session.get(
                ask.url,
                params=ask.query,
                headers=ask.headers,
                timeout=ask.timeout_s,
                stream=True,
                allow_redirects=False,
            ) as response,
        ):
            return trouble_of_status(ask.source, response) or _body(ask, response)
    except requests.RequestException as error:
        return trouble_of_error(ask.source, ask.url, error)


def _body(ask: Ask, response: requests.Response) -> bytes | Trouble:
    body = read_body(response, most_bytes=ENOUGH_BYTES)
    if body is None:
        return Trouble(Condition.GARBAGE, ask.source, f"more than {ENOUGH_BYTES} bytes")
    return body


def trouble_of_status(source: str, response: requests.Response) -> Trouble | None:
    """Return what a status other than 200 means."""
    status = response.status_code
    if status == 200:
        return None
    other = Condition.UNAVAILABLE if status >= 500 else Condition.GARBAGE
    host = urlsplit(response.url).netloc
    return Trouble(STATUSES.get(status, other), source, f"HTTP {status} from {host}", _retry_after_s(response))


def _retry_after_s(response: requests.Response) -> int:
    text = response.headers.get("Retry-After", "")
    try:
        # A date is counted from the server's own clock.
        seconds = int(text) if text.isdigit() else _apart_s(response.headers["Date"], text)
    except (KeyError, ValueError, TypeError, OverflowError):
        return 0
    return min(max(0, seconds), LONGEST_RETRY_S)


def _apart_s(earlier: str, later: str) -> int:
    return round((parsedate_to_datetime(later) - parsedate_to_datetime(earlier)).total_seconds())


def trouble_of_error(source: str, url: str, error: BaseException) -> Trouble:
    """Return what a failed request means. Its own words are left out: they may hold the key of the address."""
    chain = list(_chain(error))
    for kind, condition in CAUSES:
        if any(isinstance(cause, kind) for cause in chain):
            return Trouble(condition, source, f"asking {urlsplit(url).netloc}")
    return Trouble(Condition.GARBAGE, source, f"asking {urlsplit(url).netloc}: {type(error).__name__}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        # Requests keeps what urllib3 said as its first argument where it is not the context.
        inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = error.__cause__ or error.__context__ or inner
