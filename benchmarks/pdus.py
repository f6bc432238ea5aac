"""PDUs over SNMP: a sweep over all of a site, and one over which some are dead."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

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
VALUES = {
    f"{UNIT}.4.3.1.5.1": 120,
    f"{UNIT}.4.3.1.9.1": 5000,
    f"{UNIT}.6.3.1.7.1": 40,
    f"{UNIT}.6.3.1.7.2": 40,
    f"{UNIT}.6.3.1.7.3": 40,
    f"{UNIT}.9.4.3.1.7.1": 700,
    f"{UNIT}.9.4.3.1.7.2": 500,
    f"{UNIT}.9.4.3.1.11.1": 3000,
    f"{UNIT}.9.4.3.1.11.2": 2000,
}
COMMUNITY, USER, KEY, PRIVACY_KEY = "public", "reader", "auth-key-12", "privacy-key-12"


def pdu_benchmarks() -> Iterator[Measured]:
    """Measure sweeps over PDUs, all served by one snmpd on the same machine; nothing where it is missing."""
    if not shutil.which("snmpd"):
        return
    with tempfile.TemporaryDirectory() as name, _served(Path(name)) as port:
        community = Credential("2c", password_file=_secret(Path(name) / "community", COMMUNITY))
        user = Credential(
            "3",
            user=USER,
            password_file=_secret(Path(name) / "key", KEY),
            privacy_file=_secret(Path(name) / "privacy", PRIVACY_KEY),
        )
        for version, credential in (("2c", community), ("3", user)):
            live = [Pdu(f"pdu{i}", HOST.format(i), "apc", credential, port, version) for i in range(1, PDUS + 1)]
            data = f"values of snmpd, SNMP {version}"
            took_s = asyncio.run(_sweep(live, ROUNDS, answers=PDUS))
            yield Measured(f"{PDUS} PDUs x 9 OIDs, rows known", took_s, "s", 0.3, False, data)
            for way, bar in (("gufo-snmp", 1.5), ("pysnmp", 15.0)):
                busy_s = asyncio.run(_busy(live, ROUNDS, by_gufo=way == "gufo-snmp"))
                share = 100 * busy_s / PDUS * MANY / EVERY_S
                yield Measured(f"{MANY} PDUs every {EVERY_S} s by {way}, of a core", share, "%", bar, False, data)
        # Nobody listens at the next address: silence.
        dead = [Pdu(f"dead{i}", HOST.format(100 + i), "apc", community, port) for i in range(DEAD)]
        alive = [Pdu(f"pdu{i}", HOST.format(i), "apc", community, port) for i in range(1, PDUS - DEAD + 1)]
        took_s = asyncio.run(_sweep([*alive, *dead], 2, answers=PDUS - DEAD))
        yield Measured(f"{PDUS - DEAD} PDUs that live and {DEAD} known to be dead", took_s, "s", 4.0, False, "snmpd")


async def _sweep(pdus: Sequence[Pdu], rounds: int, *, answers: int) -> float:
    """Return the best time to read all PDUs at once, after their rows were looked up; so many of them answer."""
    wire = Transport()
    meters = [pdu_meter(pdu, wire) for pdu in pdus]
    took_s = [await _read(meters, answers) for _ in range(1 + rounds)]
    for meter in meters:
        await meter.close()
    return min(took_s[1:])


async def _busy(pdus: Sequence[Pdu], rounds: int, *, by_gufo: bool) -> float:
    """Return the least processor time of this process for one reading of all PDUs whose rows are known."""
    wire = Transport()
    meters = [pdu_meter(pdu, wire) for pdu in pdus]
    busy_s = []
    with nullcontext() if by_gufo else patch("offpeak.power.meters.snmp.client.is_fast", return_value=False):
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
def _served(folder: Path) -> Iterator[int]:
    """Run all PDUs in one snmpd; gives their port."""
    port = _free_port()
    lines = [
        f"agentAddress {','.join(f'udp:{HOST.format(i)}:{port}' for i in range(1, PDUS + 1))}",
        f"rocommunity {COMMUNITY}",
        f"createUser {USER} SHA {KEY} AES {PRIVACY_KEY}",
        f"rouser {USER} priv",
        *(f"override {oid} integer {value}" for oid, value in VALUES.items()),
    ]
    (folder / "snmpd.conf").write_text("\n".join([*lines, ""]))
    command = ("snmpd", "-f", "-Lf", os.devnull, "-C", "-c", folder / "snmpd.conf", "-I", "-smux", "-p", folder / "pid")
    environment = {"SNMP_PERSISTENT_DIR": str(folder / "state"), "MIBS": "", "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
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
            raise RuntimeError(f"snmpd ended with {server.returncode}")
        time.sleep(0.05)
    # Its addresses come one after the other.
    time.sleep(1)


def _secret(file: Path, text: str) -> Path:
    file.touch(mode=0o600)
    file.write_text(f"{text}\n")
    return file
