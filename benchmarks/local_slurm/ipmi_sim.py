"""BMCs that answer: one ipmi_sim each, at addresses of their own, with power, watts and orders as files."""

import random
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from benchmarks.local_slurm.processes import run_once, running, wait_until

PORT = 9623
PING = bytes.fromhex("0600ff06 000011be 80000000")
"""RMCP presence ping, which is answered without a session."""

QUOTED = "a#b\\c\"d'e"
"""The password of the user "quoted"; those of the others are "secret"."""

CONF = """\
name "{name}"
set_working_mc 0x20
  startlan 1
    addr {host} {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    {guid}
  endlan
  loadlib "{commands}" "{folder}"
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "admin" "secret" admin 10 none md2 md5 straight
  user 3 true "onlooker" "secret" user 10 none md2 md5 straight
  user 4 true "quoted" "{quoted}" admin 10 none md2 md5 straight
"""
EMULATION = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 100 0x0a
mc_enable 0x20
"""


@dataclass(frozen=True)
class SimulatedBmc:
    """One BMC: where it listens, and the folder with its files, as ipmi_sim_commands.c tells."""

    host: str
    port: int
    guid: str
    folder: Path
    process: subprocess.Popen[bytes]

    def reset(self) -> None:
        """Reset the BMC: on, 250 W, an empty log, a reply to every earlier request."""
        self.thaw()
        self.settle()
        for name in ("drops", "policy", "limit", "orders", "log"):
            (self.folder / name).unlink(missing_ok=True)
        self.write("power", "on")
        self.write("watts", "250")

    def write(self, name: str, value: str) -> None:
        """Set power, drops, watts or policy, at once as a whole."""
        new = self.folder / f"{name}.{threading.get_ident()}.new"
        new.write_text(f"{value}\n")
        new.rename(self.folder / name)

    def lines(self, name: str) -> list[str]:
        """Return the lines of power, limit, orders or log."""
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text().splitlines()
        return []

    def settle(self) -> None:
        """Return when the BMC has replied to all earlier requests."""
        wait_for(self)

    def freeze(self) -> None:
        """Make the BMC neither reply nor end, like one with hung firmware."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the BMC; it first handles all that has arrived meanwhile."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Let it be dead until the end."""
        self.process.kill()
        self.process.wait()


def compiled_commands(folder: Path) -> Path:
    """Return the shared object made of ipmi_sim_commands.c."""
    source, made = Path(__file__).with_name("ipmi_sim_commands.c"), folder / "ipmi_sim_commands.so"
    command = ("gcc", "-shared", "-fPIC", "-O1", "-o", made, source)
    run_once(*command, log=folder / "gcc.log")
    return made


@contextmanager
def own_network() -> Iterator[str]:
    """Give "127.x.y", a network that no other block has at the same time, in this process or another."""
    with socket.socket() as lock:
        while True:
            network = f"127.{random.SystemRandom().randrange(20, 255)}.{random.SystemRandom().randrange(255)}"
            with suppress(OSError):
                lock.bind((f"{network}.254", PORT))
                break
        yield network


@contextmanager
def bmc(folder: Path, host: str, number: int, commands: Path, *, guid: str | None = None) -> Iterator[SimulatedBmc]:
    """Run one BMC, which sends the bytes of `guid`, "" for none. It is ready to answer."""
    with _started(folder, host, number, commands, guid=guid) as simulated:
        simulated.reset()
        yield simulated


@contextmanager
def _started(
    folder: Path, host: str, number: int, commands: Path, *, guid: str | None = None
) -> Iterator[SimulatedBmc]:
    folder.mkdir()
    (folder / "state").mkdir()
    known = UUID(f"4c4c4544-0042-4a10-8054-{number:012x}")
    sent = known.bytes_le.hex() if guid is None else guid
    values = {"name": folder.name, "host": host, "port": PORT, "commands": commands, "folder": folder}
    (folder / "lan.conf").write_text(CONF.format(**values, guid=f"guid {sent}" if sent else "", quoted=QUOTED))
    (folder / "emulation").write_text(EMULATION)
    with _process(folder) as process:
        simulated = SimulatedBmc(host, PORT, str(known), folder, process)
        try:
            yield simulated
        finally:
            simulated.thaw()


@contextmanager
def restarted(dead: SimulatedBmc, *, guid: UUID | None = None) -> Iterator[SimulatedBmc]:
    """Run a BMC again that was killed, with its files as they are; with another GUID it is another board there."""
    conf = dead.folder / "lan.conf"
    changed = re.sub("guid .*", f"guid {(guid or UUID(dead.guid)).bytes_le.hex()}", conf.read_text())
    conf.write_text(changed)
    with _process(dead.folder) as process:
        simulated = replace(dead, process=process)
        simulated.settle()
        try:
            yield simulated
        finally:
            simulated.thaw()


@contextmanager
def bmcs(folder: Path, count: int, commands: Path) -> Iterator[list[SimulatedBmc]]:
    """Run so many BMCs, ready to answer, at the addresses .1, .2, ... of a network."""
    with own_network() as network, ExitStack() as running_bmcs:
        made = [
            running_bmcs.enter_context(_started(folder / f"bmc{number}", f"{network}.{number}", number, commands))
            for number in range(1, count + 1)
        ]
        # Not one by one: they get ready at the same time.
        for each in made:
            each.reset()
        yield made


@contextmanager
def _process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = ("ipmi_sim", "-n", "-c", folder / "lan.conf", "-f", folder / "emulation", "-s", folder / "state")
    with running(*command, log=folder / "out", ready=lambda: True) as process:
        yield process


def wait_for(simulated: SimulatedBmc) -> None:
    """Return when the BMC replies."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect((simulated.host, simulated.port))
        probe.settimeout(0.05)
        ended = simulated.process.poll
        wait_until(lambda: _answers(probe) or ended() is not None, what="a BMC", log=simulated.folder / "out")
    if ended() is not None:
        raise RuntimeError(f"a BMC has ended: {(simulated.folder / 'out').read_text()}")


def _answers(probe: socket.socket) -> bool:
    with suppress(OSError):
        probe.sendall(PING)
        return bool(probe.recv(100))
    return False
