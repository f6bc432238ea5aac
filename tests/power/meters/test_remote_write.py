"""Raw readings in a real Prometheus by remote write, and stores that are away, slow, full or refuse."""

import asyncio
import json
import random
import shutil
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from own_certificate import write_certificate

from benchmarks.local_slurm.processes import reserved_ports
from offpeak.errors import BadInput, CannotWrite
from offpeak.ledger.rows import MeterReading
from offpeak.power.meters import remote_write
from offpeak.power.meters.port import RemoteWriteCounts
from offpeak.power.meters.remote_write import RemoteWriter
from offpeak.settings.ledger import _store_url


def reading(at_unix_s: float, power_w: float | None, node: str = "n1", length_s: float = 10.0) -> MeterReading:
    return MeterReading(
        f"bmc {node}", "dcmi", "total", at_unix_s, at_unix_s + length_s, power_w, node=node, why="silent"
    )


def send(writer: RemoteWriter) -> None:
    asyncio.run(writer.push())


def send_until_taken(writer: RemoteWriter) -> None:
    """Send until the store, which just starts, has taken all samples."""
    end_s = time.monotonic() + 300
    while writer.counts and writer.counts.waiting:
        with suppress(CannotWrite):
            send(writer)
        assert time.monotonic() < end_s
        time.sleep(0.1)


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[None]:
    (folder / "prometheus.yml").write_text("")
    server = subprocess.Popen(
        [
            *("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        server.terminate()
        server.wait(300)


def samples(port: int, query: str, at_unix_s: float) -> dict[str, list[list[object]]]:
    """Return what a query finds at that time: the values of each node."""
    text = urllib.parse.urlencode({"query": query, "time": f"{at_unix_s}"})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{text}", timeout=300) as answer:
        found = json.load(answer)["data"]["result"]
    return {each["metric"]["node"]: each.get("values") or [each["value"]] for each in found}


def test_prometheus_has_each_reading_and_a_gap_is_a_gap(tmp_path: Path) -> None:
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is missing")
    with reserved_ports(1) as (port,):
        writer = RemoteWriter(f"http://127.0.0.1:{port}/api/v1/write")
        start_s = float(int(time.time()) - 200)
        # The store is not there yet: the samples wait.
        writer.add([reading(start_s, 100.0), reading(start_s, 250.5, "n2"), reading(start_s, 10**6, 'n"3\\')])
        with pytest.raises(CannotWrite, match="no answer"):
            send(writer)
        assert writer.counts == RemoteWriteCounts(waiting=3)
        with prometheus(tmp_path, port):
            writer.add([reading(start_s + 10, 120.0), reading(start_s + 20, None, length_s=60.0)])
            # After a clock was set back: Prometheus would refuse the whole batch.
            writer.add([reading(start_s + 5, 99.0), reading(start_s + 80, 130.0)])
            send_until_taken(writer)
            assert writer.counts == RemoteWriteCounts(waiting=0, sent=6)
            found = samples(port, "offpeak_meter_power_watts[5m]", start_s + 100)
            assert found == {
                "n1": [[start_s, "100"], [start_s + 10, "120"], [start_s + 80, "130"]],
                "n2": [[start_s, "250.5"]],
                'n"3\\': [[start_s, "1000000"]],
            }
            # Within the gap the series has no value, though a sample is less than five minutes old.
            assert samples(port, 'offpeak_meter_power_watts{node="n1",way="dcmi"}', start_s + 40) == {}
            assert samples(port, 'offpeak_meter_power_watts{node="n1"}', start_s + 15)["n1"] == [[start_s + 15, "120"]]


class Store:
    """A store whose status and delay are set; it keeps the headers of each request."""

    def __init__(self) -> None:
        self.status, self.delay_s, self.headers = 204, 0.0, list[dict[str, str]]()


@pytest.fixture
def store() -> Iterator[tuple[str, Store]]:
    state = Store()

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state.headers.append(dict(self.headers))
            time.sleep(state.delay_s)
            # The client of a slow store has gone.
            with suppress(ConnectionError):
                self.send_response(state.status)
                self.end_headers()
                self.wfile.write(b"out of bounds\nsecond line" if state.status >= 400 else b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api/v1/write", state
        server.shutdown()
        thread.join()


def test_a_slow_store_keeps_its_batch_and_delays_no_reading(
    store: tuple[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, state = store
    state.delay_s = 1.0
    monkeypatch.setattr(remote_write, "TIMEOUT_S", 0.2)
    writer = RemoteWriter(url)
    writer.add([reading(0.0, 100.0)])

    async def add_while_it_sends() -> None:
        sending = asyncio.create_task(writer.push())
        await asyncio.sleep(0.05)
        writer.add([reading(10.0, 100.0)])
        assert not sending.done()
        with pytest.raises(CannotWrite, match="no answer: ReadTimeout"):
            await sending

    asyncio.run(add_while_it_sends())
    assert writer.counts == RemoteWriteCounts(waiting=2)
    state.delay_s = 0.0
    send(writer)
    assert writer.counts == RemoteWriteCounts(waiting=0, sent=2)


@pytest.mark.parametrize("status", [301, 401, 429, 500, 503])
def test_an_outage_drops_the_oldest_samples_only(
    status: int, store: tuple[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, state = store
    state.status = status
    writer = RemoteWriter(url)
    writer.add([reading(0.0, 100.0)])
    with pytest.raises(CannotWrite, match=f"status {status}"):
        send(writer)
    monkeypatch.setattr(remote_write, "MOST_BYTES", 3 * len(writer._batches[0][0]) + 20)
    for number in range(1, 6):
        writer.add([reading(10.0 * number, 100.0)])
    assert writer.counts == RemoteWriteCounts(waiting=3, dropped=3)
    state.status = 204
    send(writer)
    assert writer.counts == RemoteWriteCounts(waiting=0, sent=3, dropped=3)


def test_a_refused_batch_does_not_stop_the_next_one(store: tuple[str, Store]) -> None:
    url, state = store
    state.status = 400
    writer = RemoteWriter(url)
    writer.add([reading(0.0, 100.0), reading(0.0, 100.0, "n2")])
    with pytest.raises(CannotWrite, match="status 400: out of bounds"):
        send(writer)
    assert writer.counts == RemoteWriteCounts(waiting=0, refused=2)
    state.status = 200
    writer.add([reading(10.0, 100.0)])
    send(writer)
    assert writer.counts == RemoteWriteCounts(waiting=0, sent=1, refused=2)


def test_ten_minutes_of_ten_thousand_meters_wait() -> None:
    chance, writer = random.Random(1), RemoteWriter("http://127.0.0.1:1/api/v1/write")
    for sweep in range(60):
        writer.add([reading(10.0 * sweep, chance.uniform(100, 400), f"n{node:05}") for node in range(10_000)])
    assert writer.counts == RemoteWriteCounts(waiting=600_000)


def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificate(tmp_path / "store.pem", "127.0.0.1"))
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        writer = RemoteWriter(f"https://127.0.0.1:{server.server_port}/api/v1/write")
        writer.add([reading(0.0, 100.0)])
        with pytest.raises(CannotWrite, match="its certificate is not trusted: set REQUESTS_CA_BUNDLE"):
            send(writer)
        server.shutdown()
        thread.join()
    assert writer.counts == RemoteWriteCounts(waiting=1)


def test_one_call_sends_a_bounded_number_of_batches(store: tuple[str, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MOST_BATCHES", 2)
    writer = RemoteWriter(store[0])
    for number in range(3):
        writer.add([reading(10.0 * number, 100.0)])
    send(writer)
    assert writer.counts == RemoteWriteCounts(waiting=1, sent=2)


def test_the_token_is_sent_and_read_again_for_each_batch(store: tuple[str, Store], tmp_path: Path) -> None:
    url, state = store
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o644)
    writer = RemoteWriter(url, token)
    writer.add([reading(0.0, 100.0)])
    with pytest.raises(CannotWrite, match="others than its owner may read it"):
        send(writer)
    assert state.headers == []
    token.chmod(0o600)
    send(writer)
    headers = state.headers[0]
    assert headers["Authorization"] == "Bearer secret"
    assert (headers["Content-Encoding"], headers["X-Prometheus-Remote-Write-Version"]) == ("snappy", "0.1.0")


@pytest.mark.parametrize("written", ["db1:9090", "ftp://db1/write", "https://user:secret@db1/write", "https:///write"])
def test_an_address_of_a_store_has_a_host_and_no_login(written: str) -> None:
    with pytest.raises(BadInput, match="is not an address of a store"):
        _store_url(written)
