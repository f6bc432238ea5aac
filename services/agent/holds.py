"""Holds of nodes by admins: when the agent replies, ledger and rules have the hold, and no order is under way."""

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpeak.door.effect import ADMIN, Hold
from offpeak.door.journal import HistoryEntry
from offpeak.errors import BadInput
from power.lifecycle.node_record import HoldChange, Release
from services.agent.requests import parse_request

if TYPE_CHECKING:
    from services.agent.agent import SiteAgent

HOLD, END_HOLD = "hold", "end_hold"


@dataclass(frozen=True)
class HoldRequest:
    """What `offpeak node NAME hold` and `release` ask of the agent, by whom the kernel says."""

    what: str
    node: str
    by: str
    reason: str = ""
    until_unix_s: float | None = None
    take_over: bool = False


def format_hold(reason: str, until_unix_s: float | None, *, take_over: bool) -> str:
    """Return the text of a request."""
    return json.dumps({"reason": reason, "until_unix_s": until_unix_s, "take_over": take_over})


def parse_hold_request(request: dict[str, Any], by: str) -> HoldRequest:
    """Return the request; BadInput for what is none."""
    said = parse_request(str(request.get("text", "")).encode())
    reason, until_unix_s, take_over = (said.get(name) for name in ("reason", "until_unix_s", "take_over"))
    node = request.get("nodes")
    fits = isinstance(node, str) and isinstance(reason, str) and isinstance(until_unix_s, int | float | None)
    if not fits or not isinstance(take_over, bool):
        raise BadInput("that is no hold", hint="it has reason, until_unix_s and take_over")
    return HoldRequest(str(request["tell"]), str(node), by, str(reason), until_unix_s, take_over)


async def change_hold(agent: "SiteAgent", request: HoldRequest) -> dict[str, Any]:
    """Begin or end a hold, and return what to say of it when it is in force; OffpeakError where it is not."""
    node = request.node
    if node not in agent.parts.by_name:
        raise BadInput(f"{node}: the agent's inventory has no such node", hint="`systemctl reload offpeak-agent`")
    now_unix_s = agent.power.now.unix_s
    if request.what == HOLD:
        hold = Hold(request.by, request.reason, request.until_unix_s)
        await asyncio.to_thread(agent.ledger.hold, node, hold, now_unix_s)
        agent.power.set_hold(node, hold)
        agent.power.hear(node, HoldChange(hold), agent.parts)
        return {"by": request.by, "note": await _settle_order(agent, node)}
    by = f"{ADMIN}{request.by}"
    found = await asyncio.to_thread(agent.ledger.release, node, by, now_unix_s, take_over=request.take_over)
    agent.power.set_hold(node, None)
    agent.power.hear(node, Release(), agent.parts)
    agent.look_soon()
    return {"by": request.by, "owner": found.owner if found else None, "reason": found.reason if found else ""}


async def _settle_order(agent: "SiteAgent", node: str) -> str:
    """Wait for the order that is under way, and return what became of it, "" for none."""
    orders = agent.orders_in_use
    if orders is None:
        return ""
    history = orders.nodes.door.history
    before = _open_entry(history.of_subject(node))
    await orders.nodes.door.settle(node)
    await orders.scheduler.settle(node)
    after = history.of_subject(node)[-1:]
    if before is None or not after or after[0].number != before.number or after[0].answer is None:
        return ""
    return f"{before.effect.order} by {before.effect.by} was under way before: {after[0].answer.said}"


def _open_entry(entries: tuple[HistoryEntry, ...]) -> HistoryEntry | None:
    return entries[-1] if entries and entries[-1].answer is None else None
