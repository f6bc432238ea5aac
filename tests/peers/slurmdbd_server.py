"""A private slurmdbd: Slurm's accounting in a database of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_server import ME, listens, running

CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
{settings}
"""

ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={munge}
AccountingStorageTRES=energy
"""
"""What slurm.conf says of it."""


@contextmanager
def slurmdbd(folder: Path, port: int, *, munge: Path, database: Path, settings: str = "") -> Iterator[None]:
    """Run slurmdbd at the port; `settings` are further lines of its slurmdbd.conf. The folder is its own."""
    conf = folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(CONF.format(munge=munge, port=port, user=ME, folder=folder, settings=settings))
    # It looks for slurmdbd.conf beside SLURM_CONF, and its MariaDB client has no other way to name a socket.
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": str(database)}
    log = folder / "slurmdbd.log"
    with running("slurmdbd", "-D", environment=environment, log=log, ready=lambda: listens(port)):
        yield
