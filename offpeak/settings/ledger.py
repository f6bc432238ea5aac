"""The settings of the ledger: where it is, and how long readings are kept in full."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from offpeak.errors import BadInput
from offpeak.settings.kinds import DURATION, SettingKind, row

URL_EXAMPLES = "sqlite:////var/lib/offpeak/ledger.sqlite or postgresql://offpeak@db1/offpeak"


def _url(written: object) -> str:
    parts = urlsplit(written) if isinstance(written, str) else None
    if parts is None or parts.scheme not in ("sqlite", "postgresql") or not parts.path.strip("/"):
        raise BadInput("is no address of a SQLite file or a PostgreSQL database", hint=f"write it like {URL_EXAMPLES}")
    if parts.scheme == "sqlite" and not str(written).startswith("sqlite:////"):
        raise BadInput(f"{written!r} has no absolute path", hint=f"four slashes: {URL_EXAMPLES}")
    if parts.password is not None or "password=" in parts.query:
        hint = "a password stands in ~/.pgpass of the user that offpeak runs as, mode 0600"
        raise BadInput("has a password in it, which `show-config` would print", hint=hint)
    return str(written)


URL = SettingKind("database URL", _url)


@dataclass(frozen=True)
class LedgerSettings:
    """Where decisions, actions, readings and costs are stored, and how long readings are kept."""

    url: str = row(
        URL,
        "--ledger",
        "SQLite file, or PostgreSQL database, of decisions, actions, readings and costs.",
        default="sqlite:////var/lib/offpeak/ledger.sqlite",
    )
    keep_readings_s: int = row(
        DURATION,
        "--keep-readings",
        "Time for which single readings are kept; means of minutes and of quarter-hours are kept longer.",
        default="7d",
    )
    keep_minutes_s: int = row(
        DURATION,
        "--keep-minutes",
        "Time for which means of minutes are kept; means of quarter-hours are kept for 1,100 days.",
        default="90d",
    )
