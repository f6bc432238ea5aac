"""`offpeak shed`: order a grid event through the agent, end it, or show what the last events delivered."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

import typer

from offpeak.display import duration_text, percent_text, power_text, second_text
from offpeak.door.effect import Mode
from offpeak.errors import BadInput, OffpeakError
from offpeak.model.time_range import parse_coming_time
from offpeak.model.units import parse_duration_s, parse_power_w
from offpeak.model.zones import machine_zone
from offpeak.services.agent.grid_event import Delivery, deliveries
from offpeak.services.agent.requests import SHED
from offpeak.services.agent.status import AgentSilent, exchange
from offpeak.settings.table import Settings
from offpeak.text import counted
from offpeak.ui.terminal import print_table, text_table

PATIENCE_S = 30.0
SHOWN_EVENTS = 5
COLUMNS = ("from", "until", "at most", "before", "mean", "below after", "held from then", "reason")


def shed_load(settings: Settings, target: str, duration: str, begin: str | None, reason: str) -> None:
    """Order an event, or end it, and print what is in force. Raises OffpeakError if no agent runs or it refuses."""
    zone = machine_zone()
    fields: dict[str, Any] = {}
    if target != "off":
        if not (for_s := parse_duration_s(duration)):
            raise BadInput(f"--for {duration}: an event lasts longer", hint="--for 2h; `offpeak shed off` ends one")
        from_unix_s = parse_coming_time("--from", begin, datetime.now(zone)) if begin else None
        fields = {"for_s": for_s, "from_unix_s": from_unix_s, "reason": reason, **_power(target)}
    request = {"tell": SHED, "nodes": "", "text": json.dumps(fields)}
    try:
        reply = exchange(settings.agent.socket, request, patience_s=PATIENCE_S)
    except AgentSilent as silent:
        raise OffpeakError(f"{silent}: nothing would shed load", hint="`systemctl start offpeak-agent`") from None
    typer.echo(_order_text(reply, fields.get("share"), zone))


def _power(target: str) -> dict[str, float | int]:
    """Return the target as a request has it. Raises BadInput."""
    if not target.endswith("%"):
        return {"cap_w": round(parse_power_w(target))}
    try:
        share = float(target.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise BadInput(f"{target}: is not a share of the present power", hint="write it like 30%, or a power like 40kW")
    return {"share": share}


def _order_text(reply: Mapping[str, Any], share: float | None, zone: tzinfo) -> str:
    if reply["cap_w"] is None:
        ended = reply.get("ended", 0)
        server = f", and {counted(ended, 'event')} of the OpenADR server ended here" if ended else ""
        file = "; those of the file stay in force" if reply.get("has_file") else ""
        return f"no event is ordered{server}{file}"
    span = f"from {second_text(reply['from_s'], zone)} to {second_text(reply['until_s'], zone)}"
    now = "" if reply["draw_w"] is None else f"nodes draw {power_text(reply['draw_w'])} now"
    less = f"{percent_text(100 * share)} less: {now}" if share else now
    acts = reply["mode"] == Mode.ACTIVE
    shadow = "" if acts else f"; in mode {reply['mode']} the agent only records what it would do"
    return f"at most {power_text(reply['cap_w'])} {span}{f' ({less})' if less else ''}{shadow}"


def print_events(settings: Settings, *, as_json: bool) -> None:
    """Print the latest events: what was asked, and what the nodes with meters drew."""
    found = deliveries(settings.ledger.url, time.time(), SHOWN_EVENTS)
    if as_json:
        typer.echo(json.dumps([_json(each) for each in found], indent=2))
        return
    if not found:
        typer.echo("no grid event is recorded")
        return
    zone = machine_zone()
    print_table(text_table(COLUMNS, (_row(each, zone) for each in found), texts=range(len(COLUMNS))))
    for each in found:
        for rung in each.rungs:
            typer.echo(f"{second_text(each.cap.from_s, zone)}: {rung}")


def _row(each: Delivery, zone: tzinfo) -> tuple[str, ...]:
    after_s, held = each.below_after_s, each.held
    return (
        second_text(each.cap.from_s, zone),
        second_text(each.cap.until_s, zone),
        power_text(each.cap.cap_w),
        power_text(each.before_w) if each.before_w else "not known",
        "not known" if each.mean_w is None else power_text(each.mean_w),
        "never" if after_s is None and each.intervals else "not known" if after_s is None else duration_text(after_s),
        "not known" if held is None else percent_text(100 * held),
        each.cap.reason,
    )


def _json(each: Delivery) -> dict[str, Any]:
    known = {**asdict(each), **asdict(each.cap)}
    del known["cap"]
    return {**known, "mean_w": each.mean_w, "below_after_s": each.below_after_s, "held": each.held}
