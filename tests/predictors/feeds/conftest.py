"""A real server on this machine that plays the answers of feeds, and their faults."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

ANSWERS = Path(__file__).parent / "answers"
KEY = "the-secret-key"


@dataclass(frozen=True)
class Reply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    hangs: bool = False


@dataclass
class Player:
    """Plays `replies` by path and query; remembers what it was asked."""

    url: str
    closing: threading.Event
    reply: Callable[[str, dict[str, str]], Reply] = lambda _path, _query: Reply(status=404)
    requests: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)

    def plays(self, reply: Reply) -> None:
        self.reply = lambda _path, _query: reply

    def plays_json(self, answer: Any) -> None:
        self.plays(Reply(json.dumps(answer).encode()))


@pytest.fixture
def player() -> Iterator[Player]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            split = urlsplit(self.path)
            query = dict(parse_qsl(split.query))
            stage.requests.append((split.path, query, dict(self.headers)))
            reply = stage.reply(split.path, query)
            if reply.hangs:
                stage.closing.wait(300)
                return
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response_only(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(reply.length or len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        stage = Player(f"http://127.0.0.1:{server.server_port}", threading.Event())
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield stage
        stage.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def closed_url() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def answer() -> Callable[[str], Any]:
    """Reads a stored JSON answer."""
    return lambda name: json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def faults() -> dict[str, Reply]:
    """What a server may say instead of an answer, by the condition that it is."""
    return {
        "service unavailable": Reply(b"", 503),
        "too many requests": Reply(b"slow down", 429, {"Retry-After": "77"}),
        "key refused": Reply(b"", 401),
        "wrong zone": Reply(b'{"detail": "unknown"}', 422),
        "not yet published": Reply(b"", 204),
        "unreadable answer": Reply(b"<!DOCTYPE html><title>Login</title>"),
        "no answer in time": Reply(hangs=True),
    }


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text(f"# keys\nENTSOE_API_KEY={KEY}\nELECTRICITY_MAPS_TOKEN = {KEY}\n")
    file.chmod(0o600)
    return file
