"""Sends raw readings to a Prometheus-compatible store by remote write (version 0.1.0 of the protocol).

`offpeak_meter_power_watts{meter,way,part,node}` has a sample when a power begins to hold, and Prometheus's marker of a
stale series where a gap begins. So the samples integrate to the energy of the ledger, and a gap is a gap there, too.

Batches are sent in order. A store that is slow or away delays no meter: batches wait within `MOST_BYTES`, then the
oldest are dropped. A batch that the store refuses is dropped at once. The ledger does not depend on the store.
"""

import asyncio
import struct
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import requests

from offpeak.errors import CannotWrite, OffpeakError
from offpeak.ledger.rows import MeterReading
from offpeak.machines.credentials import read_secret
from offpeak.power.meters.port import RemoteWriteCounts
from offpeak.web_session import WebSession, read_body

METRIC = "offpeak_meter_power_watts"
STALE = struct.pack("<Q", 0x7FF0000000000002)
"""The NaN that ends a series: pkg/value of Prometheus."""
BATCH_SAMPLES = 5_000
MOST_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 10.0
MOST_BATCHES = 30
"""In one call, so that one to a slow store does not look as if it hangs."""
HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


class RemoteWriter:
    """Queues readings for the store at `url`, "" for none; its bearer token is read from the file for each batch."""

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        self._url, self._token_file = url, token_file
        self._batches: deque[tuple[bytes, int]] = deque()
        self._counts = Counter[str]()
        self._series: dict[tuple[str, ...], tuple[bytes, int]] = {}

    def add(self, readings: Iterable[MeterReading]) -> None:
        """Queue the samples of readings; beyond the bound drop the oldest."""
        samples = [sample for reading in readings if self._url and (sample := self._encode(reading))]
        for first in range(0, len(samples), BATCH_SAMPLES):
            batch = samples[first : first + BATCH_SAMPLES]
            # An agent without remote write does without it, and without its memory.
            import pyarrow as pa

            self._batches.append((pa.compress(b"".join(batch), codec="snappy", asbytes=True), len(batch)))
        while sum(len(body) for body, _ in self._batches) > MOST_BYTES:
            self._remove_first("dropped")

    @property
    def counts(self) -> RemoteWriteCounts | None:
        """The samples since the start."""
        return RemoteWriteCounts(sum(count for _, count in self._batches), **self._counts) if self._url else None

    async def push(self) -> None:
        """Send batches in order. Raises CannotWrite when the store does not take one; the next call goes on with it.

        Batches that the store refuses for what is in them are dropped, and reported at the end.
        """
        refused: CannotWrite | None = None
        for _ in range(MOST_BATCHES):
            if not self._batches:
                break
            first = self._batches[0]
            problem, is_final = await asyncio.to_thread(self._post, first[0])
            # `add` may have dropped the batch meanwhile.
            if is_final and self._batches and self._batches[0] is first:
                self._remove_first("refused" if problem else "sent")
            if problem:
                refused = CannotWrite(f"{urlsplit(self._url).netloc}: {problem}", hint="the ledger has all minutes")
                if not is_final:
                    break
        if refused:
            raise refused

    def _encode(self, reading: MeterReading) -> bytes | None:
        """Return a TimeSeries of prompb with one sample; None if the series has one of that time or a later one.

        Prometheus would refuse the whole batch, after a clock was set back for example.
        """
        key = (reading.meter, reading.node or "", reading.part, reading.way)
        labels, last_ms = self._series.get(key, (b"", -1))
        at_ms = round(reading.from_unix_s * 1000)
        if at_ms <= last_ms:
            return None
        if not labels:
            texts = {"__name__": METRIC} | dict(zip(("meter", "node", "part", "way"), key, strict=True))
            pairs = (_field(1, name.encode()) + _field(2, text.encode()) for name, text in texts.items() if text)
            labels = b"".join(_field(1, pair) for pair in pairs)
        self._series[key] = (labels, at_ms)
        value = STALE if reading.power_w is None else struct.pack("<d", reading.power_w)
        return _field(1, labels + _field(2, b"\x09" + value + b"\x10" + _varint(at_ms)))

    def _remove_first(self, why: str) -> None:
        self._counts[why] += self._batches.popleft()[1]

    def _post(self, body: bytes) -> tuple[str, bool]:
        """Return the problem, "" if there is none, and whether another attempt is useless."""
        try:
            with WebSession() as session, session.within(TIMEOUT_S):
                session.headers.update(HEADERS)
                if self._token_file:
                    session.headers["Authorization"] = f"Bearer {read_secret(self._token_file).value.decode()}"
                answer = session.post(self._url, body, timeout=TIMEOUT_S, stream=True, allow_redirects=False)
                said = read_body(answer, most_bytes=10_000) or b""
        except (requests.RequestException, OSError, ValueError, OffpeakError) as problem:
            if "CERTIFICATE_VERIFY_FAILED" in str(problem):
                return "its certificate is not trusted: set REQUESTS_CA_BUNDLE", False
            return f"no answer: {problem if isinstance(problem, OffpeakError) else type(problem).__name__}", False
        if 200 <= answer.status_code < 300:
            return "", True
        text = said.decode(errors="replace").strip().partition("\n")[0][:120]
        # A login, a wrong path or a busy store may be mended; a batch that the store cannot read stays so.
        return f"status {answer.status_code}: {text}", answer.status_code in (400, 413, 422)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))


def _field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf with a length. Generated classes of the protocol would be longer than these lines."""
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


NO_STORE = RemoteWriter("")
