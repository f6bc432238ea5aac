"""The header directives of a Standard Workload Format log: what it says of the machine and the calendar."""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DIRECTIVE = re.compile(r";\s*(\w+)\s*:\s*(.*)")
LAST_STANDARD_FIELD = 18
WHOLE_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class SwfHeader:
    """The directives that are used; None where the header is silent. `power_column` is ours, counted from 1."""

    processors: int | None
    nodes: int | None
    unix_start_s: int | None
    time_zone: str | None
    power_column: int | None
    notes: tuple[str, ...]


def parse_header(comments: tuple[str, ...]) -> SwfHeader:
    """Read the directives; the first one of a name counts, and one that makes no sense becomes a note."""
    matches = [match for line in comments if (match := DIRECTIVE.match(line))]
    directives = {match[1]: match[2].strip() for match in reversed(matches)}
    notes: list[str] = []
    return SwfHeader(
        processors=_positive(directives, "MaxProcs", notes),
        nodes=_positive(directives, "MaxNodes", notes),
        unix_start_s=_positive(directives, "UnixStartTime", notes),
        time_zone=_zone(directives.get("TimeZoneString"), notes),
        power_column=_power_column(directives, notes),
        notes=tuple(notes),
    )


def _positive(directives: dict[str, str], name: str, notes: list[str]) -> int | None:
    text = directives.get(name)
    if text is None:
        return None
    match = WHOLE_NUMBER.match(text)
    if match is None:
        notes.append(f"header: {name} is not a number and is ignored: {text!r}")
        return None
    number = int(match[0])
    return number if number > 0 else None


def _power_column(directives: dict[str, str], notes: list[str]) -> int | None:
    column = _positive(directives, "NodePowerColumn", notes)
    if column is None or column > LAST_STANDARD_FIELD:
        return column
    notes.append(f"header: NodePowerColumn is a field of the format itself and is ignored: {column}")
    return None


def _zone(name: str | None, notes: list[str]) -> str | None:
    if not name:
        return None
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        notes.append(f"header: TimeZoneString is not a known time zone and is ignored: {name!r}")
        return None
