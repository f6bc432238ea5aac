"""A private munged: it vouches for users among the Slurm daemons of a test."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_server import running


@contextmanager
def munge(folder: Path) -> Iterator[Path]:
    """Run munged with a key of its own; gives its socket."""
    key, sock = folder / "munge.key", folder / "munge.socket"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    options = {
        "key-file": key,
        "socket": sock,
        "pid-file": folder / "munged.pid",
        "log-file": folder / "munged.log",
        "seed-file": folder / "munge.seed",
    }
    # --force: the folder is below one that everybody may write.
    command = ["munged", "--foreground", "--force", *(f"--{name}={value}" for name, value in options.items())]
    with running(*command, log=folder / "munged.out", ready=sock.is_socket):
        yield sock
