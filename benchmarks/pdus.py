"""PDUs over SNMP: a sweep over all of a site, and one over which some are dead."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bars import Measured
from offpeak.errors import NoAnswer
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.transport import Transport
from offpeak.power.meters.port import Meter
from offpeak.power.meters.registry import pdu_meter

PDUS, DEAD = 50, 10
MANY, EVERY_S = 500, 10
ROUNDS = 7
HOST = "127.31.0.{}"
UNIT = "1.3.6.1.4.1.318.1.1.26"
# Power and energy of the unit, three phases, two outlets with power and energy: nine numbers.
RECORDING = f"""\
1.3.6.1.2.1.1.3.0|67|1000
{UNIT}.4.3.1.5.1|2|120
{UNIT}.4.3.1.9.1|2|5000
{UNIT}.6.3.1.7.1|2|40
{UNIT}.6.3.1.7.2|2|40
{UNIT}.6.3.1.7.3|2|40
{UNIT}.9.4.3.1.7.1|2|700
{UNIT}.9.4.3.1.7.2|2|500
{UNIT}.9.4.3.1.11.1|2|3000
{UNIT}.9.4.3.1.11.2|2|2000
"""


def pdu_benchmarks() -> Iterator[Measured]:
    """Measure sweeps over simulated PDUs, all served by one process on the same machine."""
    with tempfile.TemporaryDirectory() as name, _simulated(Path(name)) as port:
        credential = _community(Path(name))
        # Nobody listens at the next address: silence.
        live = [Pdu(f"pdu{i}", HOST.format(i), "apc", credential, port) for i in range(1, PDUS + 1)]
        dead = [Pdu(f"dead{i}", HOST.format(100 + i), "apc", credential, port) for i in range(DEAD)]
        data = "recordings served by snmpsim"
        took_s = asyncio.run(_sweep(live, ROUNDS, answers=PDUS))
        yield Measured(f"{PDUS} PDUs x 9 OIDs, rows known", took_s, "s", 0.3, False, data)
        busy_s = asyncio.run(_busy(live, ROUNDS))
        share = 100 * busy_s / PDUS * MANY / EVERY_S
        yield Measured(f"{MANY} PDUs every {EVERY_S} s, of a core", share, "%", 1.5, False, data)
        took_s = asyncio.run(_sweep([*live[: PDUS - DEAD], *dead], 2, answers=PDUS - DEAD))
        yield Measured(f"{PDUS - DEAD} PDUs that live and {DEAD} dead", took_s, "s", 4.0, False, data)


async def _sweep(pdus: Sequence[Pdu], rounds: int, *, answers: int) -> float:
    """Return the best time to read all PDUs at once, after their rows were looked up; so many of them answer."""
    wire = Transport()
    meters = [pdu_meter(pdu, wire) for pdu in pdus]
    took_s = [await _read(meters, answers) for _ in range(1 + rounds)]
    for meter in meters:
        await meter.close()
    return min(took_s[1:])


async def _busy(pdus: Sequence[Pdu], rounds: int) -> float:
    """Return the least processor time of this process for one reading of all PDUs whose rows are known."""
    wire = Transport()
    meters = [pdu_meter(pdu, wire) for pdu in pdus]
    busy_s = []
    for _ in range(2 + rounds):
        began = time.process_time()
        await _read(meters, len(pdus))
        busy_s.append(time.process_time() - began)
    for meter in meters:
        await meter.close()
    return min(busy_s[2:])


async def _read(meters: Sequence[Meter], answers: int) -> float:
    began = time.perf_counter()
    replies = await asyncio.gather(*(meter.read() for meter in meters), return_exceptions=True)
    took_s = time.perf_counter() - began
    problems = [reply for reply in replies if isinstance(reply, BaseException)]
    if len(meters) - len(problems) != answers or not all(isinstance(error, NoAnswer) for error in problems):
        raise RuntimeError(f"{len(problems)} of {len(meters)} PDUs did not answer: {problems[:1]}")
    return took_s


@contextmanager
def _simulated(folder: Path) -> Iterator[int]:
    """Run all PDUs in one simulator; gives their port."""
    (folder / "data").mkdir()
    (folder / "cache").mkdir()
    (folder / "data" / "public.snmprec").write_text(RECORDING)
    port = _free_port()
    simulator = Path(sys.executable).parent / "snmpsim-command-responder"
    owner = ("--process-user", "root", "--process-group", "root") if os.geteuid() == 0 else ()
    engine = ("--v3-engine-id", "auto", "--data-dir", folder / "data")
    endpoints = [f"--agent-udpv4-endpoint={HOST.format(i)}:{port}" for i in range(1, PDUS + 1)]
    command = (simulator, *owner, "--cache-dir", folder / "cache", "--logging-method=null", *engine, *endpoints)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_until_bound(port, server)
            yield port
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_bound(port: int, server: subprocess.Popen[bytes]) -> None:
    while f":{port:04X} " not in Path("/proc/net/udp").read_text():
        if server.poll() is not None:
            raise RuntimeError(f"snmpsim ended with {server.returncode}")
        time.sleep(0.05)
    # Its addresses come one after the other.
    time.sleep(1)


def _community(folder: Path) -> Credential:
    file = folder / "community"
    file.touch(mode=0o600)
    file.write_text("public\n")
    return Credential("pdu", password_file=file)
