"""Time zones by name, that of this machine's clock, and their offsets from UTC."""

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from offpeak.errors import BadInput
from offpeak.text import did_you_mean

_FIXED_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")


def parse_zone(text: str) -> tzinfo:
    """Return the zone of "Europe/Berlin", "UTC" or an offset such as "+01:00". Raises BadInput for anything else."""
    offset = _FIXED_OFFSET.fullmatch(text)
    if offset and int(offset[2]) < 24 and int(offset[3]) < 60:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    if text.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(text, available_timezones()) if text else "such as Europe/Berlin"
        if hint.startswith("known"):
            hint = "give a name such as Europe/Berlin or a fixed offset such as +01:00"
        raise BadInput(f"unknown time zone {text!r}", hint=hint) from None


def zone_text(zone: tzinfo) -> str | None:
    """Return what `parse_zone` reads as this zone; None for one that was read from a file and has no name."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone)


def machine_zone(etc: Path = Path("/etc")) -> tzinfo:
    """Return the zone of this machine's clock: TZ, else /etc/localtime, else /etc/timezone, else UTC.

    It has a key unless /etc/localtime is a copied file. Raises BadInput for rules such as TZ=CET-1CEST.
    """
    if "TZ" in os.environ:
        return _zone_of_tz(os.environ["TZ"])
    clock = etc / "localtime"
    names = [clock.resolve().as_posix().partition("zoneinfo/")[2], _first_token(etc / "timezone")]
    zone = next((zone for name in names if (zone := _zone_named(name))), None)
    return zone or _zone_in(clock) or UTC


def _zone_of_tz(text: str) -> tzinfo:
    # As the C library reads it: an empty TZ is UTC, a colon may precede a name or a file.
    name = text.removeprefix(":")
    zone = _zone_named(name.rpartition("zoneinfo/")[2]) if name else UTC
    if zone is None:
        raise BadInput(f"TZ={text}: is not the name of a time zone", hint="such as `export TZ=Europe/Berlin`")
    return zone


def _zone_named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _first_token(file: Path) -> str:
    try:
        return (file.read_text(encoding="utf-8", errors="replace").split() or [""])[0]
    except OSError:
        return ""


def _zone_in(file: Path) -> ZoneInfo | None:
    try:
        with file.open("rb") as rules:
            return ZoneInfo.from_file(rules)
    except (ValueError, OSError):
        return None


def offset_at(unix_s: int, zone: tzinfo) -> int:
    """Return how far the zone's clock is ahead of UTC at that instant [s]."""
    ahead = datetime.fromtimestamp(unix_s, zone).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def date_text(unix_s: int, zone: tzinfo) -> str:
    """Return the local date as 2020-09-21."""
    return datetime.fromtimestamp(unix_s, zone).date().isoformat()
