"""What became of a job that was given to a site, and cancelling it."""

from dataclasses import replace
from typing import Any

from offpeak.door.effect import Effect, Refusal
from offpeak.errors import OffpeakError
from offpeak.ledger.rows import SubmissionRecord
from plugin.federation.choice import time_text
from power.broker.errors import SiteRefused, UnknownKey
from power.broker.states import CANCELLED, FAILED, TAKEN, TRIED
from power.broker.submit import MODE_HINT, Broker

FORGOTTEN = "took it and knows it no more: it has ended some time ago, or was lost"


async def standing_of(broker: Broker, key: str) -> dict[str, Any]:
    """Return how the job stands, as JSON's objects; UnknownKey if there is none, NotKnown if its site does not say.

    A job that its site has forgotten is said to be so, and is never submitted again by this key.
    """
    row = await _settled(broker, key)
    said = submission_json(row)
    if row.state != TAKEN:
        return said
    standing = await broker.at(row.site).standing(row.job)
    if standing is None:
        return said | {"said": f"{row.site} {FORGOTTEN}"}
    return said | {"at_site": standing.state}


async def cancel(broker: Broker, key: str) -> SubmissionRecord:
    """Cancel the job at its site, through the door; SiteRefused with what the site says against it."""
    row = await _settled(broker, key)
    if row.state != TAKEN:
        return row
    effect = Effect(f"site {row.site}", "cancel", broker.by, f"asked by key {key}", (("key", key), ("job", row.job)))
    answer = await broker.door.let_through(effect, lambda: broker.at(row.site).cancel(row.job))
    if isinstance(answer, Refusal):
        raise OffpeakError(answer.said, hint=MODE_HINT if answer.rule == "mode" else answer.hint)
    if answer.result != "done":
        raise SiteRefused(answer.said, hint=f"offpeak submit --status {key} says how it stands")
    held = row.answer | {"held_s": _held_s(row, broker.clock())}
    return broker.changed(row, replace(row, state=CANCELLED, said=f"cancelled by {broker.by}", answer=held))


def submission_json(row: SubmissionRecord) -> dict[str, Any]:
    """Return a row as JSON's objects."""
    return {
        "key": row.key,
        "state": row.state,
        "site": None if row.state == FAILED else row.site,
        "job": row.job or None,
        "at_site": None,
        "submitted": time_text(row.tried_unix_s),
        "by": row.by,
        "said": row.said,
        "choice": row.answer,
    }


def _held_s(row: SubmissionRecord, now_s: float) -> float:
    """Return how long a job that is cancelled now may have run at most."""
    run_s = (row.answer.get("expected") or {}).get("run_s", 0)
    return float(min(run_s, max(now_s - row.tried_unix_s, 0.0)))


async def _settled(broker: Broker, key: str) -> SubmissionRecord:
    row = broker.ledger.submission(key)
    if row is None:
        raise UnknownKey(f"key {key}: no job was handed over by it", hint="`offpeak history` shows what was submitted")
    return await broker.found_out(row) if row.state == TRIED else row
