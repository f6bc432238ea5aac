"""The settings of the ledger, where it is and how long readings are kept in full, and of the yearly sheet from it.

The symbols of the data centre are those of Annex II of Delegated Regulation (EU) 2024/1364.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from offpeak.errors import BadInput
from offpeak.settings.kinds import DURATION, PATH, SettingKind, number, row, whole_number

URL_EXAMPLES = "sqlite:////var/lib/offpeak/ledger.sqlite or postgresql://offpeak@db1/offpeak"


def _url(written: object) -> str:
    parts = urlsplit(written) if isinstance(written, str) else None
    if parts is None or parts.scheme not in ("sqlite", "postgresql") or not parts.path.strip("/"):
        raise BadInput(
            "is not an address of a SQLite file or a PostgreSQL database", hint=f"write it like {URL_EXAMPLES}"
        )
    try:
        _ = parts.port
    except ValueError:
        hint = "several servers are ?host=db1:5432&host=db2:5433 behind postgresql://offpeak@/offpeak"
        raise BadInput(f"{written!r}: the port is not a number", hint=hint) from None
    if parts.scheme == "sqlite" and not str(written).startswith("sqlite:////"):
        raise BadInput(f"{written!r} has no absolute path", hint=f"four slashes: {URL_EXAMPLES}")
    if parts.password is not None or "password=" in parts.query:
        hint = "a password stands in ~/.pgpass of the user that offpeak runs as, mode 0600"
        raise BadInput("has a password in it, which `show-config` would print", hint=hint)
    return str(written)


URL = SettingKind("database URL", _url)


def _store_url(written: object) -> str:
    parts = urlsplit(written if isinstance(written, str) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        hint = "write it like https://metrics.example.org/api/v1/write; a login is a token in remote_token_file"
        raise BadInput("is not an address of a store for remote write", hint=hint)
    return parts.geturl()


def _lease_s(written: object) -> float:
    length_s = float(DURATION.read(written))
    if not 5 <= length_s <= 300:
        raise BadInput(
            "is not between 5s and 5min", hint="a shorter lease is taken over sooner, a longer one survives pauses"
        )
    return length_s


LEASE = SettingKind("duration from 5s to 5min", _lease_s, suffix="_s")


@dataclass(frozen=True)
class LedgerSettings:
    """Where decisions, actions, readings and costs are stored, and how long readings are kept."""

    url: str = row(
        URL,
        "SQLite file, or PostgreSQL database, of decisions, actions, readings and costs.",
        default="sqlite:////var/lib/offpeak/ledger.sqlite",
        flag="--ledger",
    )
    lease_s: float = row(
        LEASE,
        "Of two head nodes that share a ledger in PostgreSQL, the agent that acts may be silent for this time.",
        default="15s",
    )
    keep_readings_s: int = row(
        DURATION,
        "Time for which single readings are kept; means of minutes and of quarter-hours are kept longer. "
        "0s keeps no reading, for large sites.",
        default="7d",
    )
    keep_minutes_s: int = row(
        DURATION,
        "Time for which means of minutes are kept; means of quarter-hours are kept for 1,100 days.",
        default="90d",
    )
    remote_write: str | None = row(
        SettingKind("URL", _store_url),
        "Address of a Prometheus-compatible store that gets each reading by remote write.",
        example="https://metrics.example.org/api/v1/write",
    )
    remote_token_file: Path | None = row(
        PATH,
        "File of mode 0600 with the bearer token for that store.",
        example="/etc/offpeak/metrics.token",
    )


def _amount(unit: str, flag: str, doc: str, example: float) -> Any:
    return row(number(0.0, 1e12), f"{doc}.", example=example, unit=unit, flag=f"--data-centre-{flag}")


@dataclass(frozen=True)
class DataCentreSettings:
    """What is known of the data centre in one calendar year from its meters, bills and contracts."""

    year: int | None = row(
        whole_number(2000, 2999),
        "Calendar year of the values of this section; the sheet of another year does not use them.",
        example=2026,
        flag="--data-centre-year",
    )
    it_power_kw: float | None = _amount("kW", "it-power", "Installed IT power demand, PD_IT", 800.0)
    floor_area_m2: float | None = _amount("m2", "floor", "Total floor area, S_DC", 1200.0)
    total_energy_kwh: float | None = _amount("kWh", "energy", "Total energy with fuels for cooling, E_DC", 5_200_000.0)
    it_energy_kwh: float | None = _amount("kWh", "it-energy", "Energy of IT equipment, E_IT", 4_200_000.0)
    water_m3: float | None = _amount("m3", "water", "Total water input, W_IN", 6000.0)
    reused_heat_kwh: float | None = _amount("kWh", "heat", "Waste heat reused outside, E_REUSE", 700_000.0)
    cooling_degree_days: float | None = _amount("degree-days", "cdd", "Cooling degree days above 21 C, CDD", 95.0)
    certificates_kwh: float | None = _amount("kWh", "certificates", "Certificates of origin, E_RES-GOO", 3_000_000.0)
    agreements_kwh: float | None = _amount("kWh", "ppa", "Power purchasing agreements, E_RES-PPA", 1_000_000.0)
    on_site_kwh: float | None = _amount("kWh", "on-site", "On-site renewable energy, E_RES-OS", 200_000.0)
    contract_g_per_kwh: float | None = _amount("g/kWh", "contract", "CO2e of energy without certificates", 430.0)
    node_embodied_kg: float | None = _amount("kg", "embodied", "CO2e of the production of a node, mean of all", 1500.0)
    node_lifetime_years: float = row(
        number(1.0, 30.0), "Years of use of a node.", default=5.0, unit="years", flag="--data-centre-lifetime"
    )
