"""How a broker gets at a site: where its jobs are submitted, by which command, and where its agent is asked."""

import re
from dataclasses import dataclass
from pathlib import Path

from offpeak.errors import BadInput

LOCAL, SLURM, SSH = "local", "slurm", "ssh"
SSH_PORT = 22
EXAMPLES = '"local", "slurm -M NAME", "ssh USER@HOST" or "ssh USER@HOST:PORT"'

_CLUSTER = re.compile(r"slurm -M ([A-Za-z0-9][\w.-]*)")
_LOGIN = re.compile(r"ssh ([A-Za-z_][\w.-]*)@([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")


@dataclass(frozen=True)
class Reach:
    """`way` is LOCAL, SLURM (another `cluster` of the same slurmdbd) or SSH (as `user` at `host` and `port`).

    `submit` is sbatch or qsub. `agent` is the socket of the site's agent or an address, "" for the usual one: over ssh,
    `offpeak snapshot` is run there. `key_file` and `known_hosts` are those of ssh, `secret_file` of signed snapshots.
    """

    way: str
    submit: str = "sbatch"
    cluster: str = ""
    user: str = ""
    host: str = ""
    port: int = SSH_PORT
    agent: str = ""
    key_file: Path | None = None
    known_hosts: Path | None = None
    secret_file: Path | None = None

    @property
    def by_http(self) -> bool:
        """Whether its agent is asked over HTTP."""
        return self.agent.startswith(("http://", "https://"))


def parse_reach(text: str) -> Reach:
    """Return what `reach` of a site says; BadInput for anything but the examples."""
    if text == LOCAL:
        return Reach(LOCAL)
    if cluster := _CLUSTER.fullmatch(text):
        return Reach(SLURM, cluster=cluster[1])
    login = _LOGIN.fullmatch(text)
    if login is None or not 0 < int(login[3] or SSH_PORT) < 65_536:
        raise BadInput(f"{text!r} is no way to reach a site", hint=f"write {EXAMPLES}")
    return Reach(SSH, user=login[1], host=login[2].strip("[]"), port=int(login[3] or SSH_PORT))
