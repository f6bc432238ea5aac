"""Slurm's job states: which mean that a job waits, which that it runs, and all that are known."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from offpeak.jobs import Int64

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


def words_of(column: pa.DictionaryArray) -> tuple[str, ...]:
    """Return the state of each entry of the dictionary: the first word of "CANCELLED by 1000"."""
    return tuple(text.decode(errors="replace").partition(" ")[0] for text in column.dictionary.to_pylist())


def is_one_of(states: frozenset[str], column: pa.DictionaryArray) -> NDArray[np.bool_]:
    """Say for each job whether its state is one of these."""
    among = np.array([word in states for word in words_of(column)], np.bool_)
    index: Int64 = column.indices.to_numpy()
    return among[index]
