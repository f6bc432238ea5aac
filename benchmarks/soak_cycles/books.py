"""Are the ledger's actions what the BMCs have logged?"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from offpeak.door.journal import IntentResult

LETTERS = {"on": "u", "soft_off": "d", "hard_off": "h"}
DONE = "done"


def unlike(
    logs: Mapping[str, Sequence[str]], actions: Sequence[IntentResult], unrecorded: Collection[tuple[str, int]]
) -> Iterator[str]:
    """Yield where a BMC's log is not what the ledger tells, in order.

    What was not accepted may have arrived, its answer lost; `unrecorded` are the places in logs of wakes that were
    given while nothing could be written.
    """
    booked = defaultdict[str, list[str]](list)
    for done in actions:
        certain = done.outcome is not None and done.outcome.result == DONE
        booked[done.intent.effect.subject].append(LETTERS[done.intent.effect.order] + ("" if certain else "?"))
    for node, orders in logs.items():
        logged = "".join(LETTERS[order] for at, order in enumerate(orders) if (node, at) not in unrecorded)
        if not re.fullmatch("".join(booked[node]), logged):
            yield f"{node}: its BMC has logged {logged}, the ledger {''.join(booked[node])}"


def without_end(actions: Sequence[IntentResult]) -> Iterator[str]:
    """Yield the intents of which nobody knows what became."""
    for done in actions:
        if done.outcome is None:
            yield f"{done.intent.effect.subject}: intent {done.intent.number} has no outcome"
