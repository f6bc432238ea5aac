"""Slurm's job states: which mean that a job waits, which that it runs, and all that are known."""

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64

WAITING = frozenset(("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
NEVER_STARTED = WAITING | {"CANCELLED", "DEADLINE", "REQUEUED", "REVOKED"}
"""Jobs that end like this may have waited until then."""

RUNNING = frozenset(
    ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
ENDED = frozenset(
    (
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REQUEUED",
        "DEADLINE",
        "BOOT_FAIL",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "REVOKED",
    )
)
KNOWN = WAITING | NEVER_STARTED | RUNNING | ENDED


def words_of(states: tuple[bytes, ...]) -> tuple[str, ...]:
    """Return the first word of each state: of "CANCELLED by 1000" what it is."""
    return tuple(text.decode(errors="replace").partition(" ")[0] for text in states)


def is_one_of(among: frozenset[str], code: Int64, words: tuple[str, ...]) -> NDArray[np.bool_]:
    """Say for each job, whose state is the word of its code, whether it is one of these."""
    return np.array([word in among for word in words], np.bool_)[code]
