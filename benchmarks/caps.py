"""Caps: the order to a thousand virtual BMCs, dead ones among them, and caps left behind by an agent that was killed.

`python -m benchmarks.caps` prints both; `--kills 100` sets how often the agent is killed. The BMCs are a process of
their own. A killed agent is a process that caps nodes at random and is killed at a random moment; the next one starts
at once, as systemd does it, and the time until all caps are gone is measured at the BMCs.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from offpeak.door.effect import Hold, Mode
from offpeak.ledger.ledger import Ledger
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Hardware, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.node_class_file import bundled_node_class
from offpeak.power.door.cap_orders import CapDevices, CapOrderer, CapOrders, CapRecords, make_cap_door
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.virtual.machine_room import MachineRoom, machine_room
from offpeak.sim_backend.virtual.node import BmcFaults, BmcUser
from offpeak.sim_backend.virtual.room_plan import PduLogins, RoomLogins, RoomPlan

NODES, DEAD, FEW, CAP_W = 1000, 125, 8, 400
PORT, SECRET = 6923, b"secret"
START = multiprocessing.get_context("spawn")
ORDERER = CapOrderer("admin bench", "benchmark", time.time() + 7200)


def _serve(plan: RoomPlan, pipe: Connection) -> None:
    """Run a room; answer "limited" with the number of limited nodes, and make so many BMCs silent."""

    async def run() -> None:
        async with machine_room(plan, RoomLogins({b"admin": BmcUser(SECRET)}, PduLogins("public"))) as room:
            for node in room.nodes.values():
                node.use(1.0)
            pipe.send("ready")
            while True:
                while not pipe.poll():
                    await asyncio.sleep(0.01)
                _answer(room, pipe)

    asyncio.run(run())


def _answer(room: MachineRoom, pipe: Connection) -> None:
    request = pipe.recv()
    if request == "limited":
        pipe.send(sum(bmc.power_limit.active for bmc in room.bmcs.values()))
        return
    for number, bmc in enumerate(room.bmcs.values()):
        bmc.faults = BmcFaults(silent=number < request)
    pipe.send("done")


@contextmanager
def _room(count: int) -> Iterator[tuple[RoomPlan, Connection]]:
    """Run a room of so many nodes in a process of its own."""
    plan = RoomPlan(
        expand(f"n[1-{count}]"), bundled_node_class("server"), "127.90.0.1", PORT, pdu_host="127.91.0.1", pdu_port=6924
    )
    ours, theirs = multiprocessing.Pipe()
    process = START.Process(target=_serve, args=(plan, theirs), daemon=True)
    process.start()
    try:
        ours.recv()
        yield plan, ours
    finally:
        process.terminate()
        process.join()


class _Site:
    """The door to the caps of a room, with a ledger in a folder."""

    def __init__(self, plan: RoomPlan, folder: Path, *, timeout_s: float = 5.0) -> None:
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_bytes(SECRET)
        hardware = Hardware(
            "virtual", "ipmi", Credential("bmc", "admin", password), port=PORT, cap_by="bmc", cipher_suite=3
        )
        hosts = zip(plan.nodes, plan.bmc_hosts, strict=True)
        self.machines = {node: InventoryNode(node, hardware, bmc=host) for node, host in hosts}
        self.wire = Transport(timeout_s=timeout_s)
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.ledger.ready()
        door = make_cap_door(
            self.ledger, lambda _: Mode.ACTIVE, time.time, nodes=self.machines, hold_of=dict[str, Hold]().get
        )
        records = CapRecords(self.ledger)
        records.load()
        devices = CapDevices(self.machines, self.wire, DriverPool(self.machines, self.wire).bmc_of)
        self.orders = CapOrders(door, devices, records, time.time)


async def _order_s(site: _Site, pipe: Connection, live: int) -> float:
    """Return after how long [s] all live BMCs have the cap."""
    begun_s = time.monotonic()
    order = asyncio.create_task(site.orders.cap(dict.fromkeys(site.machines, CAP_W), ORDERER))
    while True:
        await asyncio.sleep(0.02)
        pipe.send("limited")
        if await asyncio.to_thread(pipe.recv) == live:
            break
    ended_s = time.monotonic() - begun_s
    await order
    await site.orders.uncap(tuple(site.machines), ORDERER)
    return ended_s


async def _measure_orders(plan: RoomPlan, pipe: Connection, folder: Path) -> None:
    site = _Site(plan, folder)
    first_s = await _order_s(site, pipe, NODES)
    again_s = await _order_s(site, pipe, NODES)
    pipe.send(DEAD)
    pipe.recv()
    dead_s = await _order_s(site, pipe, NODES - DEAD)
    await site.wire.close()
    site.ledger.close()
    print(f"{NODES} BMCs capped after {first_s:.1f} s with logins, {again_s:.1f} s with sessions held")
    print(f"{DEAD} of them dead: all live ones capped after {dead_s:.1f} s")


def _live(plan: RoomPlan, folder: Path) -> None:
    """What an agent does with caps: remove those that were left, then cap and remove at random, until it is killed."""

    async def run() -> None:
        site = _Site(plan, folder)
        while site.orders.records.by_node:
            # The loop of the agent tries again every 15 s.
            await site.orders.uncap(tuple(site.orders.records.by_node), ORDERER)
        (folder / "removed").touch()
        while not (folder / "quiet").exists():
            nodes = random.sample(sorted(site.machines), FEW // 2)
            await site.orders.cap({node: random.randint(300, 600) for node in nodes}, ORDERER)
            await site.orders.uncap(random.sample(nodes, len(nodes) // 2), ORDERER)
        await asyncio.sleep(60)

    asyncio.run(run())


def _limited(pipe: Connection) -> int:
    """Return the number of limited nodes."""
    pipe.send("limited")
    return int(pipe.recv())


def _measure_kills(plan: RoomPlan, pipe: Connection, folder: Path, kills: int) -> None:
    left, longest_s = 0, 0.0
    for _ in range(kills):
        (folder / "quiet").unlink(missing_ok=True)
        agent = START.Process(target=_live, args=(plan, folder))
        agent.start()
        while not (folder / "removed").exists():
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 1.5))
        os.kill(agent.pid or 0, signal.SIGKILL)
        agent.join()
        killed_s = time.monotonic()
        (folder / "removed").unlink()
        (folder / "quiet").touch()
        left += _limited(pipe) > 0
        agent = START.Process(target=_live, args=(plan, folder))
        agent.start()
        while _limited(pipe):
            time.sleep(0.02)
        longest_s = max(longest_s, time.monotonic() - killed_s)
        agent.kill()
        agent.join()
        (folder / "removed").unlink(missing_ok=True)
    print(f"{kills} kills, {left} with caps in force: the next start had removed all after at most {longest_s:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as name, _room(NODES) as (plan, pipe):
        asyncio.run(_measure_orders(plan, pipe, Path(name)))
    with tempfile.TemporaryDirectory() as name, _room(FEW) as (plan, pipe):
        _measure_kills(plan, pipe, Path(name), kills)


if __name__ == "__main__":
    main()
