"""A power-control service after the API definition of HPE's PCS 1.1.2, with the faults that the tests need.

Its answers have the form of those of the real service, with which the driver was tried by hand.
"""

import json
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

GOALS = {"on": "on", "soft-off": "off", "force-off": "off"}
SUPPORTED = ["On", "Force-Off", "Soft-Off", "Off"]
CONTROL = "Node Power Control"


@dataclass
class PowerControlPeer:
    """Has `power` by xname ("on", "off", "undefined") and `caps_w`. `silent` xnames have a BMC that is unavailable.

    Rows of `unlisted` are left out of every answer. `override` answers a path with a status and a body; None: never.
    With `is_stuck` no task ends. The service does what is posted to a path of `loses`, but its answer never comes.
    `delay_s` delays each answer.
    """

    url: str
    closing: threading.Event
    power: dict[str, str]
    token: str = "first"
    caps_w: dict[str, int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    override: dict[str, tuple[int, bytes] | None] = field(default_factory=dict)
    loses: set[str] = field(default_factory=set)
    is_stuck: bool = False
    delay_s: float = 0.0
    requests: list[tuple[str, str]] = field(default_factory=list)
    orders: list[tuple[str, list[str]]] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def reply(self, method: str, path: str, authorization: str, body: Any) -> tuple[int, bytes] | None:
        self.requests.append((method, path))
        self.closing.wait(self.delay_s)
        if authorization != f"Bearer {self.token}":
            return 401, b'{"title": "Unauthorized"}'
        if path in self.override:
            return self.override[path]
        kind, _, number = path.removeprefix("/v1/").partition("/")
        if method == "GET" and number in self.tasks:
            return _answer(self.tasks[number])
        if method == "DELETE" and number in self.tasks:
            self.tasks[number]["transitionStatus"] = "abort-signaled"
            return 202, b'{"abortStatus": "Accepted - abort initiated"}'
        found = {
            ("GET", "transitions"): self._transitions,
            ("POST", "power-status"): self._status,
            ("POST", "transitions"): self._transition,
            ("POST", "power-cap"): self._snapshot,
            ("PATCH", "power-cap"): self._patch,
        }.get((method, kind))
        answer = _answer(found(body)) if found else (404, b'{"detail": "no such page"}')
        return None if method == "POST" and path in self.loses else answer

    def _status(self, body: Any) -> dict[str, Any]:
        rows = []
        for xname in body["xname"]:
            row = {"xname": xname, "powerState": "", "managementState": "", "error": "Component not found"}
            if xname in self.power:
                state = "undefined" if xname in self.silent else self.power[xname]
                available = "unavailable" if xname in self.silent else "available"
                row |= {"powerState": state, "managementState": available, "error": None}
                row["supportedPowerTransitions"] = SUPPORTED
            rows.append(row)
        return {"status": [row for row in rows if row["xname"] not in self.unlisted]}

    def _transition(self, body: Any) -> dict[str, Any]:
        xnames = [each["xname"] for each in body["location"]]
        self.orders.append((body["operation"], xnames))
        tasks = []
        for xname in xnames:
            task = {"xname": xname, "taskStatus": "new" if self.is_stuck else "succeeded"}
            if xname in self.refused:
                description = "Failed to achieve transition"
                task = {"xname": xname, "taskStatus": "failed", "taskStatusDescription": description}
                task["error"] = self.refused[xname]
            elif not self.is_stuck:
                self.power[xname] = GOALS[body["operation"].lower()]
            tasks.append(task)
        number = str(uuid.uuid4())
        said = {"transitionID": number, "operation": body["operation"]}
        self.tasks[number] = {**said, "transitionStatus": "in-progress", "tasks": tasks}
        return said

    def _transitions(self, _body: Any) -> dict[str, Any]:
        return {"transitions": [{**task, "tasks": None} for task in self.tasks.values() if "transitionID" in task]}

    def _snapshot(self, body: Any) -> dict[str, Any]:
        return self._cap_task([self._component(xname) for xname in body["xnames"]])

    def _patch(self, body: Any) -> dict[str, Any]:
        components = []
        for each in body["components"]:
            (control,) = each["controls"]
            assert control["name"] == CONTROL
            component = self._component(each["xname"])
            if control["value"] and control["value"] < 350:
                component["error"] = f"Control ({CONTROL}) value ({control['value']}) is less than minimum (350)"
            else:
                self.caps_w[each["xname"]] = control["value"]
            components.append(component)
        return self._cap_task(components)

    def _component(self, xname: str) -> dict[str, Any]:
        if xname not in self.power:
            return {"xname": xname, "error": "Xname not found in HSM"}
        control = {"name": CONTROL, "currentValue": self.caps_w.get(xname, 0), "maximumValue": 900, "minimumValue": 350}
        accelerator = {"name": "Accelerator0 Power Control", "currentValue": 0}
        return {"xname": xname, "limits": {"hostLimitMax": 900}, "powerCapLimits": [accelerator, control]}

    def _cap_task(self, components: list[dict[str, Any]]) -> dict[str, Any]:
        number, status = str(uuid.uuid4()), "in-progress" if self.is_stuck else "completed"
        self.tasks[number] = {"taskID": number, "taskStatus": status, "components": components}
        return {"taskID": number}


def _answer(value: Any) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()


@contextmanager
def power_control_peer(xnames: list[str], certificate: Path | None = None) -> Iterator[PowerControlPeer]:
    """A running service whose nodes are on; it has https with a certificate."""
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            reply = peer.reply(self.command, self.path, self.headers.get("Authorization", ""), body)
            if reply is None:
                closing.wait(300)
                return
            with suppress(OSError):
                self.send_response(reply[0])
                self.send_header("Content-Length", str(len(reply[1])))
                self.end_headers()
                self.wfile.write(reply[1])

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}/v1"
    peer = PowerControlPeer(url, closing, dict.fromkeys(xnames, "on"))
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield peer
    finally:
        closing.set()
        server.shutdown()
        serving.join()
        server.server_close()
