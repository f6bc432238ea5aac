"""The keys of a node class file: which there are, what stands behind each, and what is said where one is wrong."""

from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.setting_kinds import DURATION, POWER, Kind
from offpeak.suggest import did_you_mean
from offpeak.zones import DAY_S

EXAMPLES = {
    "idle": '"150W"',
    "running": '[[0.0, "150W"], [1.0, "300W"]]',
    "repair": '"24h"',
    "power": '"10W"',
    "enter": '{ duration = "60s", power = "150W", failure_probability = 0.0 }',
    "leave": '{ duration = "180s", power = "200W", failure_probability = 0.0 }',
    "duration": '"180s"',
    "failure_probability": "0.01",
}


@dataclass(frozen=True)
class Entry:
    """Something written in a file, and the dotted key at which it stands: "" for the whole file."""

    file: str
    key: str
    written: object

    def wrong(self, what: str, *, hint: str) -> BadInput:
        """Return the error that says what is wrong with this entry."""
        return BadInput(": ".join(filter(None, (self.file, self.key, what))), hint=hint)


def entries_below(table: Entry, needed: tuple[str, ...], *, optional: tuple[str, ...] = ()) -> dict[str, Entry]:
    """Return a table's entries by key; BadInput unless it has the needed keys and none but these and the optional."""
    if not isinstance(table.written, dict):
        raise table.wrong("is no table", hint=_how_to_write(table.key.rpartition(".")[2], needed))
    path = f"{table.key}." if table.key else ""
    found = {key: Entry(table.file, f"{path}{key}", written) for key, written in table.written.items()}
    for key in found:
        if key not in (*needed, *optional):
            raise found[key].wrong("is no key of a node class", hint=did_you_mean(key, (*needed, *optional)))
    for key in needed:
        if key not in found:
            raise table.wrong(f"{key} is missing", hint=f"add {_how_to_write(key, ())}")
    return found


def read_power_w(entry: Entry) -> float:
    """Return a power, such as "150W", in watts; BadInput as `parse_power_w`."""
    return _read(entry, POWER)


def read_duration_s(entry: Entry) -> int:
    """Return a duration, such as "180s", in seconds; BadInput unless it is at least a second and at most a day."""
    seconds = _read(entry, DURATION)
    if not 1 <= seconds <= DAY_S:
        raise entry.wrong(f"{entry.written!r} is not from 1s to 1d", hint="write what you measured, such as 180s")
    return int(seconds)


def read_repair_s(entry: Entry) -> int:
    """Return how long a repair takes, such as "24h", in seconds; BadInput unless it is at least a second."""
    seconds = _read(entry, DURATION)
    if seconds < 1:
        raise entry.wrong(f"{entry.written!r} is no time at all", hint="leave it out if nobody repairs nodes")
    return int(seconds)


def read_share(entry: Entry) -> float:
    """Return a number from 0 to 1; BadInput otherwise."""
    number = entry.written
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= 1:
        raise entry.wrong(f"{number!r} is not from 0 to 1", hint="write a number without quotes, such as 0.01")
    return float(number)


def _read(entry: Entry, kind: Kind) -> float:
    try:
        return float(kind.read(entry.written))
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None


def _how_to_write(key: str, needed: tuple[str, ...]) -> str:
    return f"{key} = {EXAMPLES[key]}" if key in EXAMPLES else f"write [{key}], and below it {', '.join(needed)}"
