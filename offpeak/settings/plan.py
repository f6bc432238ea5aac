"""The settings of the plan and of flexible jobs: the machine room, revenues, sources of caps on power, hints by QOS.

A revenue is the earning of a core-hour by account and QOS; jobs without an entry earn the usual one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.model.flexibility import EXAMPLES, HINT_PREFIX, FlexibilityRules, parse_user_hints
from offpeak.settings.kinds import DURATION, NAMES, PATH, POWER, TEXT, SettingKind, number, row

REVENUE_HINT = "write ACCOUNT=0.08, ACCOUNT/QOS=0.2 or /QOS=0.1, separated by commas"


@dataclass(frozen=True)
class Revenue:
    """The revenue of a core-hour of jobs of that account and QOS; "" matches any."""

    account: str
    qos: str
    per_core_h: float


def revenue_per_core_h(revenues: tuple[Revenue, ...], account: str, qos: str, *, usual: float) -> float:
    """Return the revenue of such a job's core-hour: an entry with both precedes its QOS, which precedes its account."""
    rates = {(revenue.account, revenue.qos): revenue.per_core_h for revenue in revenues}
    for named in ((account, qos), ("", qos), (account, "")):
        if named in rates and any(named):
            return rates[named]
    return usual


HIGHEST_PER_CORE_H = 1e6


def read_revenues(written: object) -> tuple[Revenue, ...]:
    """Return the revenues of `physics=0.08,physics/urgent=0.2,/urgent=0.1` or a list of such texts. Raises BadInput."""
    revenues = tuple(_revenue(item) for item in NAMES.read(written))
    named = [(revenue.account, revenue.qos) for revenue in revenues]
    for who in named:
        if named.count(who) > 1:
            raise BadInput(f"{'/'.join(who).rstrip('/')!r} stands there twice", hint="leave one of the two")
    return revenues


def _revenue(item: str) -> Revenue:
    who, equals, amount = (part.strip() for part in item.partition("="))
    account, _, qos = (part.strip() for part in who.partition("/"))
    try:
        per_core_h = float(amount)
    except ValueError:
        per_core_h = math.nan
    if not equals or not (account or qos):
        raise BadInput(f"{item!r} names no account or QOS and what it earns", hint=REVENUE_HINT)
    if not 0 <= per_core_h <= HIGHEST_PER_CORE_H:
        raise BadInput(f"{item!r}: {amount!r} is not a revenue", hint="a core-hour earns from 0 to 1,000,000")
    return Revenue(account, qos, per_core_h)


REVENUES = SettingKind("list of revenues", read_revenues)


@dataclass(frozen=True)
class PlanSettings:
    """The inputs of a plan of the queue other than jobs, nodes and prices."""

    facility: str | None = row(
        TEXT,
        "Cooling of the machine room: air, hybrid, or a CSV file of PUE by load and outside temperature; when not "
        "set: no energy for cooling.",
        example="air",
    )
    outside_c: float = row(
        number(-60.0, 60.0),
        "Outside temperature in degrees Celsius, if [feeds] names no source of it.",
        default=15.0,
        unit="C",
        flag="--outside",
    )
    revenue_per_core_h: float = row(
        number(0.0),
        "Revenue of a core-hour, in the currency of the prices, unless `revenues` sets another value.",
        default=0.05,
        unit="per core-hour",
        flag="--revenue-per-core-hour",
    )
    revenues: tuple[Revenue, ...] | None = row(
        REVENUES,
        "Revenue of a core-hour by account and QOS: ACCOUNT, ACCOUNT/QOS or /QOS; an entry with both takes "
        "precedence, then one with the QOS.",
        example=["physics=0.08", "physics/urgent=0.2", "/urgent=0.1"],
    )
    events: Path | None = row(
        PATH,
        "TOML file of caps on power: [[event]] with begin, end, cap_w and reason.",
        example="/etc/offpeak/events.toml",
    )
    devices: Path | None = row(
        PATH,
        "TOML file of a PV plant and a battery, for plans and replays by commands; the agent leaves it out.",
        example="/etc/offpeak/devices.toml",
    )
    openadr: str | None = row(
        TEXT,
        "Address of an OpenADR 3 server whose IMPORT_CAPACITY_LIMIT events are caps on power.",
        example="https://vtn.example.org/openadr3/3.0.1",
    )
    openadr_token: Path | None = row(
        PATH, "File of mode 0600 with the bearer token for that server.", example="/etc/offpeak/openadr.token"
    )
    openadr_client_id: str | None = row(
        TEXT,
        "ID with which tokens of that server are fetched (OAuth2 client credentials), instead of openadr_token.",
        example="hpc-site-1",
    )
    openadr_client_secret: Path | None = row(
        PATH, "File of mode 0600 with the secret of openadr_client_id.", example="/etc/offpeak/openadr.secret"
    )
    openadr_token_url: str | None = row(
        TEXT,
        "Where tokens are fetched; when not set: at the address that the server names, or else at its /auth/token.",
        example="https://login.example.org/oauth2/token",
    )
    openadr_scope: str | None = row(
        TEXT, "Scope of the tokens; when not set: none is named.", example="read_all write_reports"
    )
    openadr_client: str | None = row(
        TEXT,
        "Name of the site at that server: events for others do not apply, and the agent reports what the site drew "
        "during an event; when not set: it sends no reports, and no event with targets applies by this name.",
        example="hpc-site-1",
    )
    openadr_programs: tuple[str, ...] | None = row(
        NAMES, "IDs of the programmes whose events apply; when not set: those of all.", example=["flex-2026"]
    )
    openadr_targets: tuple[str, ...] | None = row(
        NAMES,
        "Names of this site's resources and groups at that server, beside `openadr_client`: an event for others does "
        "not apply.",
        example=["hall-2", "hpc-sites"],
    )
    openadr_longest_s: int = row(DURATION, "An event ends after this time at the latest.", default="24h")
    openadr_silence_s: int = row(
        DURATION, "An event without an end ends so long after the server was reached last.", default="1h"
    )
    openadr_least_w: float = row(
        POWER,
        "A lower limit of an event counts as this one: what the site draws while all nodes sleep.",
        default="100W",
    )

    peak_target_w: float | None = row(
        POWER,
        "Peak shaving: a job that would draw more than this, and more than the highest quarter-hour of the present "
        "demand charge so far, waits; when not set: off. The tariff file names the demand charges.",
        example="300kW",
    )
    peak_wait_s: int = row(
        DURATION, "A job that has waited for so long since its submission starts whatever peak it draws.", default="12h"
    )

    @property
    def has_cap_source(self) -> bool:
        """Whether a source of caps on power is set."""
        return bool(self.events or self.openadr or self.peak_target_w)


def read_declarations(written: object) -> dict[str, str]:
    """Return the hints by QOS or partition of `flex=delay=2d;cap,night=delay=12h`. Raises BadInput.

    Only the owner of a job knows whether its script answers a signal, which otherwise ends it.
    """
    found: dict[str, str] = {}
    for item in NAMES.read(written):
        name, _, hints = (part.strip() for part in item.partition("="))
        parsed = parse_user_hints(f"{HINT_PREFIX}{hints}", UTC)
        errors = parsed.errors
        if parsed.checkpoint:
            raise BadInput(f"{item!r}: only a job's owner declares a checkpoint", hint="it stands in the job's comment")
        if not name or not hints or errors:
            raise BadInput(f"{item!r}: {'; '.join(errors) or 'no name and hints'}", hint=f"hints are {EXAMPLES}")
        if name in found:
            raise BadInput(f"{name!r} stands there twice", hint="separate the hints of a name by semicolons")
        found[name] = hints
    return found


DECLARATIONS = SettingKind("list of names with hints", read_declarations)


@dataclass(frozen=True)
class FlexibilitySettings:
    """The flexibility of jobs whose comments have no hints, and what the tiers of jobs earn."""

    qos: Mapping[str, str] | None = row(
        DECLARATIONS,
        "Hints of jobs by QOS, which apply to jobs without hints of their own.",
        example=["flex=delay=2d;cap"],
        flag="--flexible-qos",
    )
    partitions: Mapping[str, str] | None = row(
        DECLARATIONS,
        "Hints of jobs by partition or PBS queue, if neither the job nor its QOS has any; a job in several partitions "
        "needs the same hints in all.",
        example=["night=delay=12h"],
        flag="--flexible-partitions",
    )

    credit_per_kwh: float | None = row(
        number(0.0),
        "Credit of a job's account for each kWh that its tier moved into a cheaper hour, in the currency of the "
        "prices; when not set: none.",
        example=0.02,
        unit="per kWh",
    )
    credit_share: float | None = row(
        number(0.0, 1.0),
        "Credit of a job's account as a share of the money that its tier saved, 0 to 1; when not set: none.",
        example=0.5,
    )

    @property
    def declarations(self) -> int:
        """The number of QOS and partitions with hints."""
        return len(self.qos or {}) + len(self.partitions or {})

    def rules(self, zone: tzinfo) -> FlexibilityRules:
        """Return the rules by which jobs are flexible."""
        return FlexibilityRules(zone, self.qos or {}, self.partitions or {})
