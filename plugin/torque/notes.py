"""Our mark in a Torque node's note, which also tells admins."""

import re

from plugin.pbs.marks import Kind, Mark
from plugin.scheduler.node import OURS

_SINCE = re.compile(rf"{OURS}: (asleep|wakes) since (\d+)")


def note_of(mark: Mark) -> str:
    """Return the note of a node that is asleep or wakes."""
    return f"{OURS}: {mark.kind} since {mark.since_s}"


def mark_of(note: str) -> Mark | None:
    """Return our mark in a note, None if it is not ours: the server may add errors behind it."""
    if match := _SINCE.match(note):
        return Mark(Kind(match[1]), int(match[2]))
    return Mark(Kind.CLOSED, 0) if note == OURS or note.startswith(f"{OURS}:") else None
