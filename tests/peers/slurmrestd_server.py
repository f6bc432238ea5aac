"""slurmrestd beside a private Slurm, which trusts tokens signed with the cluster's own key."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.local_slurm.processes import listens, running
from benchmarks.local_slurm.servers import SlurmCluster

PROGRAMS = ("slurmrestd", "/usr/lib/*/slurm-wlm/auth_jwt.so", "setpriv")
PACKAGES = "slurmrestd slurm-wlm-jwt-plugin"
SETTINGS = "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"


def settings_with_key(folder: Path) -> str:
    """Write a key into the folder and return the lines of slurm.conf that name it."""
    key = folder / "jwt.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(32))
    return SETTINGS.format(key=key)


@contextmanager
def slurmrestd(cluster: SlurmCluster, port: int) -> Iterator[str]:
    """Run slurmrestd; gives its address."""
    # All it has would need accounting.
    command = ("slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/jwt", f"127.0.0.1:{port}")
    # It refuses to run as root.
    as_nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups") if os.geteuid() == 0 else ()
    environment = {"SLURM_CONF": str(cluster.conf), "SLURM_JWT": "daemon"}
    log = cluster.folder / "slurmrestd.log"
    with running(*as_nobody, *command, environment=environment, log=log, ready=lambda: listens(port)):
        yield f"http://127.0.0.1:{port}"


def token_file(cluster: SlurmCluster, file: Path) -> Path:
    """Write a token for this user into a file that only its owner can read."""
    token = cluster.run("scontrol", "token", "lifespan=600").strip().removeprefix("SLURM_JWT=")
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return file
