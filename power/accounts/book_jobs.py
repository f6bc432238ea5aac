"""Jobs that have ended into the accounts, all of a look at once."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from offpeak.errors import BadInput, BadLedger
from offpeak.ledger.database import open_ledger
from power.accounts.draw import Draw
from power.accounts.job_use import Booked, booked_all, modelled
from power.accounts.ran_jobs import Ended


def book_jobs(
    url: str, ended: Sequence[Ended], cpus: Mapping[str, int], expected: Mapping[str, Draw]
) -> tuple[Booked, ...]:
    """Return what each job used; `cpus` are those of the nodes, `expected` the draws by job number.

    It reads the ledger of that URL, all jobs at once, which may take tenths of a second: an event loop calls it in a
    thread. BadLedger if it cannot be read: then the jobs go on waiting.
    """
    if not ended:
        return ()
    with open_ledger(url) as connection:
        try:
            return tuple(booked_all(connection, ended, cpus, expected))
        except BadLedger:
            raise
        except BadInput:
            return tuple(_one(connection, each, cpus, expected) for each in ended)


def _one(connection: Connection, ended: Ended, cpus: Mapping[str, int], expected: Mapping[str, Draw]) -> Booked:
    """Return the job, modelled where prices in two currencies or a strange node set leave the ledger no answer."""
    try:
        return booked_all(connection, [ended], cpus, expected)[0]
    except BadLedger:
        raise
    except BadInput as problem:
        return modelled(ended, expected[ended.job.job_id], str(problem))
