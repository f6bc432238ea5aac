"""The settings of the plan: the machine room, what work earns, and where caps on power come from."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.revenues import REVENUES, Revenue
from offpeak.setting_kinds import PATH, TEXT, number
from offpeak.setting_row import row


@dataclass(frozen=True)
class PlanSettings:
    """What a plan of the queue counts with besides jobs, nodes and prices."""

    facility: str | None = row(
        TEXT,
        "--facility",
        "The machine room's cooling: air, hybrid, or a CSV file of PUE by load and outside temperature; when not set:"
        " energy for cooling is not counted.",
        example="air",
    )
    outside_c: float = row(
        number(-60.0, 60.0),
        "--outside",
        "Outside temperature in degrees Celsius where [feeds] names no source of it.",
        default=15.0,
        unit="C",
    )
    revenue_per_core_h: float = row(
        number(0.0),
        "--revenue-per-core-hour",
        "What a core-hour earns, in the currency of the prices, unless `revenues` says otherwise.",
        default=0.05,
        unit="per core-hour",
    )
    revenues: tuple[Revenue, ...] | None = row(
        REVENUES,
        "--revenues",
        "What a core-hour of other jobs earns, by account and QOS: ACCOUNT, ACCOUNT/QOS or /QOS; what names both counts"
        " first, then the QOS.",
        example=["physics=0.08", "physics/urgent=0.2", "/urgent=0.1"],
    )
    events: Path | None = row(
        PATH,
        "--events",
        "TOML file of caps on power: [[event]] with begin, end, cap_w and reason.",
        example="/etc/offpeak/events.toml",
    )
    openadr: str | None = row(
        TEXT,
        "--openadr",
        "Address of an OpenADR 3 server whose IMPORT_CAPACITY_LIMIT events are caps on power.",
        example="https://vtn.example.org/openadr3/3.0.1",
    )
    openadr_token: Path | None = row(
        PATH,
        "--openadr-token",
        "File of mode 0600 with the bearer token for that server.",
        example="/etc/offpeak/openadr.token",
    )
