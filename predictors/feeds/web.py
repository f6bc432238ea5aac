"""HTTP exchanges, bounded as a whole, that return an answer or the problem and never raise; JSON answers and keys.

JSON is validated when it arrives. Keys of services are read when needed, from the environment or from a private file.
"""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import requests
from pydantic import BaseModel, ConfigDict, ValidationError
from urllib3.exceptions import ReadTimeoutError

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.web_session import WebSession, read_body

ENOUGH_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 20.0

# In this order, because a time-out to connect is a failed connection too.
CAUSES: tuple[tuple[type[BaseException], FeedCondition], ...] = (
    (requests.Timeout, FeedCondition.HANGING),
    (ReadTimeoutError, FeedCondition.HANGING),
    (requests.exceptions.SSLError, FeedCondition.UNTRUSTED),
    (ConnectionRefusedError, FeedCondition.REFUSED),
    (ConnectionResetError, FeedCondition.UNAVAILABLE),
    (requests.exceptions.ChunkedEncodingError, FeedCondition.UNAVAILABLE),
    (requests.ConnectionError, FeedCondition.NO_NETWORK),
)
STATUSES: Mapping[int, FeedCondition] = {
    204: FeedCondition.NOT_YET_PUBLISHED,
    401: FeedCondition.KEY_REFUSED,
    403: FeedCondition.KEY_REFUSED,
    400: FeedCondition.WRONG_ZONE,
    404: FeedCondition.WRONG_ZONE,
    422: FeedCondition.WRONG_ZONE,
    408: FeedCondition.HANGING,
    429: FeedCondition.TOO_MANY,
}


@dataclass(frozen=True)
class HttpRequest:
    """A source's request; headers may contain a key and are not shown. The whole answer must arrive in `timeout_s`."""

    source: str
    url: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = TIMEOUT_S


def get(ask: HttpRequest) -> bytes | FeedProblem:
    """Return the body of an answer of status 200. Redirections are not followed: they would take the key along."""
    try:
        with _answer(ask, "GET") as response:
            return status_problem(ask.source, response) or _body(ask, response)
    except requests.RequestException as error:
        return request_problem(ask.source, ask.url, error)


def post(ask: HttpRequest, body: bytes) -> int | FeedProblem:
    """Send a JSON text, and return the status of the answer, whatever it is. Redirections are not followed."""
    try:
        with _answer(ask, "POST", {"Content-Type": "application/json"}, body) as response:
            return response.status_code
    except requests.RequestException as error:
        return request_problem(ask.source, ask.url, error)


def post_form(ask: HttpRequest, fields: Mapping[str, str], login: tuple[str, str] | None = None) -> bytes | FeedProblem:
    """Send a form, with a user and a password if `login` has them, and return the body of the answer, as `get`."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if login:
        user, password = (quote_plus(text) for text in login)
        headers["Authorization"] = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    try:
        with _answer(ask, "POST", headers, urlencode(fields).encode()) as response:
            created = response.status_code == 201
            return (None if created else status_problem(ask.source, response)) or _body(ask, response)
    except requests.RequestException as error:
        return request_problem(ask.source, ask.url, error)


@contextmanager
def _answer(
    ask: HttpRequest, method: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Iterator[requests.Response]:
    with (
        WebSession() as session,
        session.within(ask.timeout_s),
        session.request(
            method,
            ask.url,
            params=ask.query,
            data=body,
            headers={**ask.headers, **(headers or {})},
            timeout=ask.timeout_s,
            stream=True,
            allow_redirects=False,
        ) as response,
    ):
        yield response


def _body(ask: HttpRequest, response: requests.Response) -> bytes | FeedProblem:
    body = read_body(response, most_bytes=ENOUGH_BYTES)
    if body is None:
        return FeedProblem(FeedCondition.GARBAGE, ask.source, f"more than {ENOUGH_BYTES} bytes")
    return body


def status_problem(source: str, response: requests.Response) -> FeedProblem | None:
    """Return what a status other than 200 means."""
    status = response.status_code
    if status == 200:
        return None
    other = FeedCondition.UNAVAILABLE if status >= 500 else FeedCondition.GARBAGE
    host = urlsplit(response.url).netloc
    return FeedProblem(STATUSES.get(status, other), source, f"HTTP {status} from {host}", status=status)


def request_problem(source: str, url: str, error: BaseException) -> FeedProblem:
    """Return what a failed request means. Its own words are left out: they may hold the key of the address."""
    chain = list(_chain(error))
    for kind, condition in CAUSES:
        if any(isinstance(cause, kind) for cause in chain):
            return FeedProblem(condition, source, f"asking {urlsplit(url).netloc}")
    return FeedProblem(FeedCondition.GARBAGE, source, f"asking {urlsplit(url).netloc}: {type(error).__name__}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        # requests has the exception of urllib3 as its first argument if it is not the context.
        inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = error.__cause__ or error.__context__ or inner


class AnswerShape(BaseModel):
    """What an answer must hold; more is ignored, other types are not converted."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


Model = TypeVar("Model", bound=AnswerShape)


def get_json(ask: HttpRequest, shape: type[Model]) -> Model | FeedProblem:
    """Return the answer in its shape."""
    body = get(ask)
    return body if isinstance(body, FeedProblem) else read_json(ask.source, body, shape)


def read_json(source: str, body: bytes, shape: type[Model]) -> Model | FeedProblem:
    """Parse the text into its shape; problems are described without repeating the text."""
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        page = body.lstrip()[:1] == b"<"
        detail = "a page instead of data" if page else f"{place}: {first['msg']}" if place else "no JSON"
        return FeedProblem(FeedCondition.GARBAGE, source, detail)


@dataclass(frozen=True)
class KeyLocation:
    """Where a key is kept: the environment variable, and lines `VARIABLE=key` of a file of mode 0600."""

    variable: str
    file: Path | None = None


def read_key(place: KeyLocation, source: str) -> str | FeedProblem:
    """Return the key; the environment wins over the file."""
    if key := os.environ.get(place.variable, "").strip():
        return key
    if place.file is None:
        return FeedProblem(FeedCondition.NO_KEY, source, f"{place.variable} is not set and no key file is named")
    keys = _keys_in(place.file, source)
    if isinstance(keys, FeedProblem):
        return keys
    missing = FeedProblem(FeedCondition.NO_KEY, source, f"{place.file} has no line {place.variable}=...")
    return keys.get(place.variable) or missing


def read_optional_keys(file: Path | None, variables: tuple[str, ...], source: str) -> Mapping[str, str] | FeedProblem:
    """Return those of the keys that are set; the environment wins over the file."""
    found = _keys_in(file, source) if file else {}
    if isinstance(found, FeedProblem):
        return found
    environment = {variable: os.environ.get(variable, "").strip() for variable in variables}
    return {variable: key for variable in variables if (key := environment[variable] or found.get(variable, ""))}


def _keys_in(file: Path, source: str) -> dict[str, str] | FeedProblem:
    """Return the keys of the file. A file that others may read has none."""
    try:
        mode = file.stat().st_mode & 0o777
        if mode & 0o077:
            return FeedProblem(FeedCondition.NO_KEY, source, f"{file} can be read by others (mode {mode:04o})")
        lines = [line.partition("=") for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        return FeedProblem(FeedCondition.NO_KEY, source, f"{file} cannot be read: {type(error).__name__}")
    return {name.strip(): key.strip() for name, _, key in reversed(lines) if key.strip()}
