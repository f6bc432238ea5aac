"""100,000 nodes where that can be simulated: the inventory, their power states by one request, and a power decision.

`python -m benchmarks.very_large_site`: the power-control service is a thread of this program that sends prepared bytes,
and the scene of the decision is that of `benchmarks.power_loop`, a hundred times as large.
"""

import asyncio
import json
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import power_loop
from benchmarks.__main__ import print_table
from benchmarks.bars import Measured
from offpeak.machines.inventory import Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.orders import PowerState
from offpeak.power.drivers.poll import poll_drivers
from offpeak.power.drivers.registry import driver_of
from offpeak.power.drivers.transport import Transport
from offpeak.power.live.power_plan import PowerMemory, plan_power

CABINETS, NODES_OF_EACH = 100, 1000
TIMEOUT_S = 120.0
INVENTORY = """
[credentials.pcs]
password_file = "token"
[hardware.compute]
driver = "pcs"
url = "http://127.0.0.1:{port}/v1"
credential = "pcs"
[[machines]]
nodes = "n[000001-{nodes:06}]"
hardware = "compute"
bmc = "x[1000-{last}]c[0-4]s[0-9]b[0-9]n[0-1]"
"""


def very_large_site_benchmarks(cabinets: int = CABINETS) -> Iterator[Measured]:
    """Measure each part once; the bars are a cycle of 30 s, and the memory of a small head node."""
    nodes = cabinets * NODES_OF_EACH
    data = f"{nodes:,} nodes"
    with TemporaryDirectory() as folder, _service(cabinets) as port:
        (Path(folder) / "token").touch(0o600)
        (Path(folder) / "token").write_text("token")
        file = Path(folder) / "inventory.toml"
        file.write_text(INVENTORY.format(port=port, nodes=nodes, last=999 + cabinets))
        began_s = time.monotonic()
        inventory = read_inventory(file)
        yield Measured("reading the inventory", time.monotonic() - began_s, "s", 5.0, False, data)
        yield Measured("all power states by one request", asyncio.run(_poll(inventory)), "s", 30.0, False, data)
    power_loop.NODES, power_loop.RUNNING, power_loop.PENDING = nodes, 2 * nodes // 5, 8 * nodes // 5
    power_loop.NAMES = tuple(f"n{number:04}" for number in range(nodes))
    snapshot = power_loop.snapshot_of(power_loop.NOW_S)
    for policy in ("timeout:10min", "ols:1h"):
        site, began_s = power_loop.make_site(policy), time.monotonic()
        plan_power(snapshot, site=site, memory=PowerMemory())
        took_s = time.monotonic() - began_s
        yield Measured(f"a power decision, {policy}", took_s, "s", 30.0, False, f"{data}, {2 * nodes:,} jobs")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Measured("memory of all this at its peak", peak_mib, "MiB", 4096.0, False, data)


async def _poll(inventory: Inventory) -> float:
    """Return how long the states of all nodes took [s]."""
    wire = Transport(timeout_s=TIMEOUT_S)
    drivers = {machine.node: driver_of(machine, wire) for machine in inventory.machines}
    began_s = time.monotonic()
    observed = await poll_drivers(drivers, timeout_s=TIMEOUT_S, clock=time.time)
    took_s = time.monotonic() - began_s
    await wire.close()
    assert all(each.state is PowerState.ON for each in observed.values())
    return took_s


@contextmanager
def _service(cabinets: int) -> Iterator[int]:
    """Answer each request with the states of all nodes, which are on."""
    places = (
        (x, c, s, b, n) for x in range(cabinets) for c in range(5) for s in range(10) for b in range(10) for n in (0, 1)
    )
    rows = [
        {"xname": f"x{1000 + x}c{c}s{s}b{b}n{n}", "powerState": "on", "managementState": "available"}
        for x, c, s, b, n in places
    ]
    body = json.dumps({"status": rows}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    print_table(very_large_site_benchmarks())
