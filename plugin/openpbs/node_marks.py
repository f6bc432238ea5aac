"""Our mark at an OpenPBS node: a custom resource such as `asleep.1795213295`."""

import re

from plugin.pbs.marks import Kind, Mark

_MARK = re.compile(rf"({'|'.join(Kind)})\.(\d+)")


def mark_text(mark: Mark) -> str:
    """Return the mark as the resource's value."""
    return f"{mark.kind}.{mark.since_s}"


def mark_of(value: str) -> Mark | None:
    """Return the mark that a value is, None for none."""
    match = _MARK.fullmatch(value)
    return Mark(Kind(match[1]), int(match[2])) if match else None
