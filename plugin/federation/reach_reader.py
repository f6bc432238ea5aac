"""Makes of a site's table how it is reached, and says what does not go together there."""

from dataclasses import replace
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.machines.credentials import secret_path
from offpeak.text import did_you_mean
from plugin.federation.reach import SLURM, SSH, Reach, parse_reach
from plugin.federation.sites_shape import SiteTable

PROGRAMS = ("sbatch", "qsub")
OF_SSH = ("key_file", "known_hosts")
ONLY_REACHED = ("submit", "agent", *OF_SSH, "secret_file")


class BadKey(BadInput):
    """`key` of the table cannot be used."""

    def __init__(self, key: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.key = key


def reach_of(table: SiteTable, *, beside: Path) -> Reach | None:
    """Return how the site is reached, None where its table does not say; BadKey for what is wrong.

    Files are relative to `beside`, the folder of the file of sites, or systemd's of credentials.
    """
    given = [key for key in ONLY_REACHED if getattr(table, key) is not None]
    if table.reach is None:
        if given:
            raise BadKey(given[0], "goes with reach", hint='add reach, such as reach = "local"')
        return None
    try:
        reach = parse_reach(table.reach)
    except BadInput as problem:
        raise BadKey("reach", str(problem), hint=problem.hint) from None
    _check(table, reach, given)
    return replace(
        reach,
        submit=table.submit or PROGRAMS[0],
        agent=table.agent or "",
        key_file=_file(table.key_file, beside),
        known_hosts=_file(table.known_hosts, beside),
        secret_file=_file(table.secret_file, beside),
    )


def _check(table: SiteTable, reach: Reach, given: list[str]) -> None:
    if table.submit is not None and table.submit not in PROGRAMS:
        raise BadKey("submit", f"{table.submit!r} submits nothing", hint=did_you_mean(table.submit, PROGRAMS))
    if table.submit == "qsub" and reach.way == SLURM:
        raise BadKey("submit", "qsub goes to no cluster of Slurm", hint='write submit = "sbatch" or another reach')
    for key in OF_SSH:
        if reach.way == SSH and key not in given:
            # Without them anybody would be believed, or keys be offered that open other doors.
            raise BadKey(key, "is missing", hint=f"ssh needs key_file and known_hosts: add {key}")
        if reach.way != SSH and key in given:
            raise BadKey(key, "goes with ssh", hint=f'leave {key}, or write reach = "ssh USER@HOST"')
    by_http = (table.agent or "").startswith(("http://", "https://"))
    if reach.way == SLURM and table.agent is None:
        raise BadKey("agent", "is missing", hint="name its agent's socket, or the address of its `offpeak broker`")
    if reach.way == SSH and table.agent is not None and not by_http:
        raise BadKey("agent", "a socket is not reached by ssh", hint="leave it: `offpeak snapshot` is run there")
    if by_http != (table.secret_file is not None):
        raise BadKey("secret_file", "goes with an agent that is asked over HTTP", hint="both, or none of the two")


def _file(written: str | None, beside: Path) -> Path | None:
    return None if written is None else secret_path(Path(written), beside=beside)
