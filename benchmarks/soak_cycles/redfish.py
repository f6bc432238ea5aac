"""A Redfish BMC of a soak: a process that keeps its state in the same files as an ipmi_sim, behind a wire.

Run as a program it is that process: `redfish.py FOLDER PORT GUID`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ORDERS = {"On": "on", "GracefulShutdown": "soft_off", "ForceOff": "hard_off"}
SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


def serve(folder: Path, port: int, guid: str) -> None:
    """Answer until the process ends; an order is a line in `orders`, and changes nothing else."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(_resource(self.path, (folder / "power").read_text().strip(), guid))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with (folder / "orders").open("a") as orders:
                orders.write(f"{ORDERS[asked['ResetType']]}\n")
            self._answer({})

        def _answer(self, resource: object) -> None:
            body = json.dumps(resource).encode()
            self.send_response(200 if resource is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def _resource(path: str, power: str, guid: str) -> object:
    allowed = {"target": RESET, "ResetType@Redfish.AllowableValues": list(ORDERS)}
    return {
        "/redfish/v1": {"Systems": {"@odata.id": "/redfish/v1/Systems"}},
        "/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]},
        SYSTEM: {
            "Id": "1",
            "UUID": guid,
            "PowerState": power.capitalize(),
            "Actions": {"#ComputerSystem.Reset": allowed},
        },
    }.get(path.rstrip("/"))


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
