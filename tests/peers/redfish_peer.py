"""A small Redfish service with what sushy-tools' emulator lacks: power metrics, refusals, garbage and silence."""

import json
import ssl
import threading
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = "/redfish/v1/"
SYSTEM, CHASSIS = "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1U"
SESSIONS = "/redfish/v1/SessionService/Sessions"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
UUID = "92384634-2938-2342-8820-489239905423"


def resources(power_state: str = "On") -> dict[str, Any]:
    """A service of one system in one chassis that tells its power in both ways."""
    allowed = {"target": RESET, "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}
    return {
        ROOT: {
            "Systems": {"@odata.id": "/redfish/v1/Systems"},
            "Links": {"Sessions": {"@odata.id": SESSIONS}},
        },
        "/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]},
        SYSTEM: {
            "Id": "1",
            "Name": "n001",
            "UUID": UUID.upper(),
            "PowerState": power_state,
            "Links": {"Chassis": [{"@odata.id": CHASSIS}]},
            "Actions": {"#ComputerSystem.Reset": allowed},
        },
        CHASSIS: {
            "Id": "1U",
            "EnvironmentMetrics": {"@odata.id": f"{CHASSIS}/EnvironmentMetrics"},
            "Power": {"@odata.id": f"{CHASSIS}/Power"},
        },
        f"{CHASSIS}/EnvironmentMetrics": {"PowerWatts": {"Reading": 374.5}, "EnergykWh": {"Reading": 10}},
        f"{CHASSIS}/Power": {"PowerControl": [{"PowerConsumedWatts": 344}]},
    }


def merge(resource: Any, change: Any) -> Any:
    """Change a resource as a PATCH does: objects and the members of lists one by one."""
    if isinstance(change, dict):
        resource.update({key: merge(resource.get(key), value) for key, value in change.items()})
        return resource
    if isinstance(change, list):
        return [merge(*pair) for pair in zip(resource, change, strict=True)]
    return change


@dataclass
class RedfishPeer:
    """Answers with `resources`; one that is bytes is sent as it is, an int as that status, None never."""

    url: str
    closing: threading.Event
    resources: dict[str, Any] = field(default_factory=resources)
    login: str = "admin:secret"
    sessions_only: bool = False
    """Accept the tokens of sessions, and no Basic authentication."""
    needs_if_match: bool = False
    """Refuse a PATCH without the resource's ETag."""
    requested: list[str] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """The paths of the open sessions by their tokens."""
    on_reset: Callable[[str], None] = lambda _reset: None
    before_reply: Callable[[str, str], None] = lambda _method, _path: None

    def reply(self, method: str, path: str, headers: Message, body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        self.requested.append(f"{method} {path}")
        self.before_reply(method, path)
        if (method, path) == ("POST", SESSIONS):
            return self._log_in(json.loads(body))
        if (method, path) != ("GET", ROOT) and not self._may(headers):
            return 401, b"", {} if self.sessions_only else {"WWW-Authenticate": 'Basic realm="BMC"'}
        if method == "DELETE":
            self.sessions = {token: own for token, own in self.sessions.items() if own != path}
            return 204, b"", {}
        if method == "POST":
            reset = json.loads(body)["ResetType"]
            self.resets.append(reset)
            self.resources[SYSTEM]["PowerState"] = "On" if reset == "On" else "Off"
            self.on_reset(reset)
            return 204, b"", {}
        if method == "PATCH":
            if self.needs_if_match and headers.get("If-Match") != self._etag(path):
                return 412 if "If-Match" in headers else 428, b"", {}
            merge(self.resources[path], json.loads(body))
            return 204, b"", {}
        found = self.resources.get(path, 404)
        if found is None:
            self.closing.wait(300)
            return None
        if isinstance(found, int):
            return found, b'{"error": {"@Message.ExtendedInfo": [{"Message": "The\\nservice says no."}]}}', {}
        etag = {"ETag": "W/" + self._etag(path)} if self.needs_if_match else {}
        return 200, found if isinstance(found, bytes) else json.dumps(found).encode(), etag

    def _may(self, headers: Message) -> bool:
        basic = b64decode(headers.get("Authorization", "").removeprefix("Basic ")).decode()
        return headers.get("X-Auth-Token") in self.sessions or (basic == self.login and not self.sessions_only)

    def _log_in(self, login: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        if f"{login['UserName']}:{login['Password']}" != self.login:
            return 401, b"", {}
        token = f"token {len(self.requested)}"
        self.sessions[token] = f"{SESSIONS}/{len(self.requested)}"
        return 201, b"{}", {"X-Auth-Token": token, "Location": self.url + self.sessions[token]}

    def _etag(self, path: str) -> str:
        return f'"{zlib.crc32(json.dumps(self.resources[path]).encode())}"'


@contextmanager
def redfish_peer(certificate: Path | None = None) -> Iterator[RedfishPeer]:
    """Serve until the block ends; over TLS where a file with certificate and key is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet an answer: a second would wait for the first one's receipt.
        wbufsize = 65_536

        def do_GET(self) -> None:
            self.answer("GET")

        def do_POST(self) -> None:
            self.answer("POST")

        def do_PATCH(self) -> None:
            self.answer("PATCH")

        def do_DELETE(self) -> None:
            self.answer("DELETE")

        def answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = peer.reply(method, self.path, self.headers, body)
            if reply is None:
                self.close_connection = True
                return
            with suppress(ConnectionError):
                self.send_response_only(reply[0])
                for name, value in {**reply[2], "Content-Length": str(len(reply[1]))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply[1])

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that do not trust the certificate hang up: no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        peer = RedfishPeer(f"{scheme}://127.0.0.1:{server.server_port}", threading.Event())
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield peer
        peer.closing.set()
        server.shutdown()
        thread.join()
