"""Private SNMP agents: PDUs from recordings (snmpsim), and a real agent with SNMPv3 (snmpd of net-snmp)."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_slurm.processes import free_udp_port, running

SIMULATOR = Path(sys.executable).parent / "snmpsim-command-responder"
# Every agent of a test run has its own address: a port of one address may be free while that of another is not.
AGENTS = "127.21.0."

SNMPD_CONF = """\
agentAddress udp:{host}:{port}
rocommunity public 127.0.0.0/8
sysServices 72
{users}
"""


@dataclass(frozen=True)
class User:
    """An SNMPv3 user of snmpd; without keys it may come in without."""

    name: str
    authentication: str = ""
    key: str = ""
    privacy: str = ""
    privacy_key: str = ""

    def lines(self) -> str:
        """Return its lines in snmpd.conf."""
        level = "priv" if self.privacy else "auth" if self.authentication else "noauth"
        arguments = (self.authentication, self.key, self.privacy, self.privacy_key)
        return f"createUser {self.name} {' '.join(filter(None, arguments))}\nrouser {self.name} {level}\n"


def is_bound(port: int) -> bool:
    """Tell whether somebody takes packets at a port of this machine."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") for line in lines)


@contextmanager
def snmpsim(recordings: Path, folder: Path, *, agents: int = 1) -> Iterator[tuple[Sequence[str], int]]:
    """Run PDUs from recordings, each by its file's name as community; gives the agents' addresses and their port."""
    hosts = [f"{AGENTS}{number}" for number in range(1, agents + 1)]
    port = free_udp_port("0.0.0.0")
    cache = folder / "cache"
    cache.mkdir()
    # It insists on becoming somebody else when root starts it.
    owner = ("--process-user", "root", "--process-group", "root") if os.geteuid() == 0 else ()
    # It reads these words a second time by itself, and knows them in this order and form only.
    engine = ("--v3-engine-id", "auto", "--data-dir", recordings)
    endpoints = [f"--agent-udpv4-endpoint={host}:{port}" for host in hosts]
    command = (SIMULATOR, *owner, "--cache-dir", cache, "--logging-method=null", *engine, *endpoints)
    with running(*command, log=folder / "snmpsim.log", ready=lambda: is_bound(port), environment={"HOME": str(folder)}):
        yield hosts, port


@contextmanager
def snmpd(folder: Path, users: Sequence[User]) -> Iterator[tuple[str, int]]:
    """Run snmpd with these users; gives its address and port."""
    host = "127.0.0.1"
    port = free_udp_port(host)
    conf = folder / "snmpd.conf"
    conf.write_text(SNMPD_CONF.format(host=host, port=port, users="".join(user.lines() for user in users)))
    # Else it writes below /var/lib/snmp and looks for MIBs that Debian does not ship.
    environment = {"SNMP_PERSISTENT_DIR": str(folder / "state"), "MIBS": ""}
    command = ("snmpd", "-f", "-Le", "-C", "-c", conf, "-I", "-smux", f"--pidFile={folder / 'snmpd.pid'}")
    with running(*command, log=folder / "snmpd.log", ready=lambda: is_bound(port), environment=environment):
        yield host, port
