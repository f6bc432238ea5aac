"""A private MariaDB without network and without passwords."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_server import ME, run_once, running, wait_until


@contextmanager
def mariadb(folder: Path) -> Iterator[Path]:
    """Run mariadbd on an empty database; gives its socket."""
    log, sock = folder / "mariadbd.log", folder / "mariadb.socket"
    place = ("--no-defaults", f"--datadir={folder / 'database'}", f"--user={ME}")
    # A MariaDB that starts removes the temporary tables of any other from the folder that they share.
    own = {"TMPDIR": str(folder)}
    # --force: on a machine whose own name nobody can look up too.
    run_once("mariadb-install-db", *place, "--skip-test-db", "--force", log=log, environment=own)
    options = ("--skip-networking", "--skip-grant-tables", f"--socket={sock}", "--innodb-flush-log-at-trx-commit=0")
    with running("mariadbd", *place, *options, log=log, ready=sock.is_socket, environment=own):
        wait_until(lambda: b"ready for connections" in log.read_bytes(), what="MariaDB", log=log)
        yield sock
