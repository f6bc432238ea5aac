"""Meters in a network that this host does not reach: a collector reads them there, and posts each sweep to the agent.

The collector (`run_collector`) sweeps the nodes and PDUs of its table in the inventory as the agent does; it gives no
order and decides nothing. The page's server passes its posts on to the agent, whose `CollectorIntake` counts a sweep at
the sweep's own time, and each one once.
"""

import asyncio
import hmac
import json
import logging
import math
import signal
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from offpeak.display import utc_text
from offpeak.errors import BadInput, BadInventory, NoAnswer, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.log_lines import begin_log
from offpeak.machines.inventory import Collector, Inventory
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.power.drivers.poll import ReportedProblem, limit_repeats
from offpeak.power.drivers.redfish import DeviceWebApi, parse_error_message
from offpeak.power.drivers.transport import Transport
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.port import Meter, MeterResult, Reading
from offpeak.power.meters.registry import device_meters
from offpeak.services.accounts.metering import HELD_PERIODS, MeteredSite, Metering, Pace, after_round, read_due_meters
from offpeak.settings.table import Settings
from offpeak.text import counted, did_you_mean, printable

LOG = logging.getLogger("offpeak")

MOST_SKEW_S = 10.0
"""The clocks of collector and agent differ by at most this, with the time that a post takes."""
MOST_LATE_S = float(DAY_S)
"""Older sweeps are not counted: savings of a day are booked until the next one ends, and its seal follows soon."""


@dataclass(frozen=True)
class MeterReport:
    """The readings of one meter, or why it has none."""

    meter: str
    way: str
    readings: tuple[Reading, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Sweep:
    """What the meters of a collector reported until `at_unix_s`; it was sent at `sent_unix_s`, by the same clock."""

    at_unix_s: float
    sent_unix_s: float
    reports: tuple[MeterReport, ...]


@cache
def _sweep_type() -> Any:
    # pydantic is slow to import, and the page needs it not.
    from pydantic import TypeAdapter

    return TypeAdapter(Sweep)


def find_refusal(
    sweep: Sweep, collector: Collector, inventory: Inventory, *, last_unix_s: float, now_unix_s: float
) -> str:
    """Return why a sweep cannot be counted after the one of `last_unix_s`, "" if it can."""
    ahead_s, at = sweep.sent_unix_s - now_unix_s, f"its sweep of {sweep.at_unix_s:.0f}"
    if not abs(ahead_s) <= MOST_SKEW_S:
        is_ahead = "ahead of" if ahead_s > 0 else "behind"
        return f"its clock is {abs(ahead_s):,.0f} s {is_ahead} that of the agent: `chronyc tracking` on its host"
    if not last_unix_s < sweep.at_unix_s <= sweep.sent_unix_s:
        return f"{at} is not after the last one, of {last_unix_s:.0f}: its clock went back, or this is a repetition"
    if now_unix_s - sweep.at_unix_s > MOST_LATE_S:
        return f"{at} is too late to be counted"
    targets = {pdu.name: {target for _, target in pdu.outlets} for pdu in inventory.read_by(collector.name)[1]}
    targets |= {node: {node} for node in collector.nodes}
    for report in sweep.reports:
        its = targets.get(report.meter)
        for each in report.readings:
            numbers = (each.power_w or 0.0, each.energy_j or 0.0, each.resolution_w, each.holds_s)
            if its is None or each.meter != report.meter or (each.node and each.node not in its):
                return f"{each.meter} with {each.node or each.part} is none of its devices"
            if not last_unix_s < each.at_unix_s <= sweep.at_unix_s:
                return f"a reading of {report.meter} is of another time than its sweep"
            if not all(map(math.isfinite, numbers)) or each.holds_s > HOUR_S:
                return f"a reading of {report.meter} is not a number"
    return ""


@dataclass
class CollectorState:
    """The meters of a collector after its last sweep, which ended at `last_unix_s`; why the latest post was refused."""

    last_unix_s: float
    metering: Metering = field(default_factory=Metering)
    refusal: str = ""


class CollectorIntake:
    """Takes the sweeps of collectors, by the agent's clocks, and writes their rows by `write`."""

    def __init__(
        self,
        ledger: Ledger,
        write: Callable[[Sequence[MeterReading]], None],
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._ledger, self._write, self._clock, self._steady = ledger, write, clock, steady
        self._started_unix_s, self._reported = clock(), frozenset[str]()
        self.states: dict[str, CollectorState] = {}

    async def receive(
        self, request: Mapping[str, Any], inventory: Inventory, pace: Pace, site_of: Callable[[str], MeteredSite]
    ) -> dict[str, Any]:
        """Count a sweep and return the reply. Raises BadInput for an unknown collector or a wrong token."""
        collector = _authenticate(request, inventory)
        if "sweep" not in request:
            return {"sweep": "awaited"}
        hold_s = HELD_PERIODS * pace.period_s
        try:
            if (problem := self._ledger.problem()) is not None and problem.message:
                raise OffpeakError(f"the ledger: {problem.message}")
            state = await self._load(collector.name, hold_s)
        except OffpeakError as error:
            return {"sweep": "later", "why": str(error)}
        try:
            sweep: Sweep = _sweep_type().validate_python(request["sweep"])
        except ValueError as error:
            state.refusal = f"its post is not a sweep: {printable(str(error))}"
            return {"sweep": "refused", "why": state.refusal}
        if sweep.at_unix_s == state.last_unix_s:
            # The reply was lost.
            return {"sweep": "counted"}
        last_unix_s, now_unix_s = state.last_unix_s, self._clock()
        state.refusal = find_refusal(sweep, collector, inventory, last_unix_s=last_unix_s, now_unix_s=now_unix_s)
        if state.refusal:
            return {"sweep": "refused", "why": state.refusal}
        site, is_late = site_of(collector.name), now_unix_s - sweep.at_unix_s > hold_s
        if is_late:
            # The present state of a node says nothing of its power at that time.
            bound_of = site.node_bound
            site = replace(site, node_bound=lambda node: replace(bound_of(node), expected_w=None, asleep=None))
        results = tuple(
            MeterResult(each.meter, each.way, each.readings, NoAnswer(each.error) if each.error else None)
            for each in sweep.reports
        )
        done = after_round(state.metering, results, pace=pace, now=Instant(self._steady(), sweep.at_unix_s), site=site)
        state.metering, state.last_unix_s = done.after, sweep.at_unix_s
        self._ledger.remember(f"collector {collector.name}", repr(sweep.at_unix_s))
        self._write(done.rows)
        for line in done.lines:
            LOG.warning("collector %s: %s", collector.name, line)
        if is_late:
            # A collector that catches up waits for the disk: the rows that may wait in memory are bounded.
            await asyncio.to_thread(self._ledger.settle)
        return {"sweep": "counted"}

    def problems(self, inventory: Inventory, hold_s: float) -> dict[str, str | None]:
        """Return the problem of each collector that is or was in the inventory, None where there is none."""
        found: dict[str, str | None] = dict.fromkeys(self._reported)
        for each in inventory.collectors:
            state = self.states.get(each.name, CollectorState(self._started_unix_s))
            lines = [state.refusal and f"its post was refused: {state.refusal}"]
            if self._clock() - state.last_unix_s > hold_s:
                since = utc_text(state.last_unix_s)
                lines.insert(0, f"silent since {since}: the power of {_devices_text(each)} is not known")
            found[each.name] = "; ".join(filter(None, lines)) or None
        self._reported = frozenset(found)
        return found

    async def _load(self, name: str, hold_s: float) -> CollectorState:
        """Return the state, after a restart with the time of the last sweep that was counted before."""
        now_unix_s = self._clock()
        if name not in self.states:
            text = await asyncio.to_thread(self._ledger.remembered, f"collector {name}")
            # What was swept before the first post may have been counted by another reader.
            self.states.setdefault(name, CollectorState(now_unix_s - hold_s if text is None else float(text)))
        if self.states[name].last_unix_s > now_unix_s + MOST_SKEW_S:
            # Both clocks were in the future: what was counted then does not bound what is counted now.
            self.states[name] = CollectorState(now_unix_s - hold_s)
        return self.states[name]


def _authenticate(request: Mapping[str, Any], inventory: Inventory) -> Collector:
    name, token = str(request.get("collector")), str(request.get("token"))
    for collector in inventory.collectors:
        if collector.name == name:
            try:
                secret = collector.credential.password().value
            except BadInput as error:
                LOG.warning("collector %s: %s; %s", name, error, error.hint)
            else:
                if hmac.compare_digest(token.encode(errors="replace"), secret):
                    return collector
    raise BadInput(f"no collector {printable(name)}, or not its token", hint="password_file of its credential")


def _devices_text(collector: Collector) -> str:
    counts = ((len(collector.nodes), "node"), (len(collector.pdus), "PDU"))
    return " and ".join(counted(number, kind) for number, kind in counts if number)


MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Compressed sweeps that wait for the head node: a day of a rack."""
RETRY_S = 5.0
DROPPING_STATUSES = (400, 409, 413)
"""The server's refusals that a later attempt would not change."""


class MeterCollector:
    """Sweeps the meters of a collector once a period, and posts the sweeps in their order; some may wait."""

    def __init__(self, collector: Collector, meters: tuple[Meter, ...], pace: Pace) -> None:
        self._collector, self._meters, self._pace = collector, meters, pace
        url, table = (collector.url or "").rstrip("/"), f"collectors.{collector.name}"
        who, verify = f"head node {urlsplit(url).netloc}", collector.verify
        self._api = DeviceWebApi(url, who, table=table, verify=verify, timeout_s=MOST_SKEW_S, page="/")
        self._metering, self._has_more, self._dropped = Metering(), asyncio.Event(), 0
        self._waiting = deque[tuple[float, bytes]]()
        self._reported: ReportedProblem | None = None

    async def sweep_forever(self) -> None:
        """Read all meters once a period."""
        while True:
            began_s = time.monotonic()
            results = await read_due_meters(self._meters, self._metering, pace=self._pace, now_s=began_s)
            now = Instant(time.monotonic(), time.time())
            done = after_round(self._metering, results, pace=self._pace, now=now)
            self._metering = done.after
            for line in done.lines:
                LOG.warning("meters: %s", line)
            reports = tuple(MeterReport(each.meter, each.way, each.readings, str(each.error or "")) for each in results)
            sweep = Sweep(now.unix_s, now.unix_s, reports)
            self._waiting.append((sweep.at_unix_s, zlib.compress(_sweep_type().dump_json(sweep))))
            size = sum(len(packed) for _, packed in self._waiting)
            while size > MOST_WAITING_BYTES or sweep.at_unix_s - self._waiting[0][0] > MOST_LATE_S:
                size -= len(self._waiting.popleft()[1])
                self._dropped += 1
            self._has_more.set()
            await asyncio.sleep(max(0.0, self._pace.period_s - (time.monotonic() - began_s)))

    async def post_forever(self) -> None:
        """Post the sweeps, each until the head node has it or refuses it for good."""
        while await self._has_more.wait():
            first = self._waiting[0]
            problem, is_done = await self._post(first[1])
            if is_done and self._waiting[0] is first:
                self._waiting.popleft()
            if not self._waiting:
                self._has_more.clear()
            if not is_done:
                dropped = f", {self._dropped} were dropped" if self._dropped else ""
                problem += f"; sweeps wait since {utc_text(self._waiting[0][0])}{dropped}"
            self._reported, line = limit_repeats(self._reported, problem or None, at_unix_s=time.time())
            if line:
                LOG.warning("%s", line)
            if not is_done:
                await asyncio.sleep(RETRY_S)

    async def close(self) -> None:
        """Log out."""
        await asyncio.gather(self._api.close(), *(meter.close() for meter in self._meters))

    async def _post(self, packed: bytes) -> tuple[str, bool]:
        """Return the problem, "" for none, and whether the sweep needs no other attempt."""
        try:
            token = self._collector.credential.password().value.decode(errors="replace")
            body = json.loads(zlib.decompress(packed)) | {"sent_unix_s": time.time()}
            login = {"Authorization": f"Bearer {token}"}
            answer = await self._api.exchange("POST", f"/collectors/{self._collector.name}", body, login)
        except OffpeakError as error:
            return f"{error}; {error.hint}", False
        if answer.status == 200:
            return "", True
        is_final = answer.status in DROPPING_STATUSES
        why = parse_error_message(answer.body) or f"HTTP {answer.status}"
        return f"a sweep is {'refused' if is_final else 'not taken yet'}: {why}", is_final


def run_collector(settings: Settings, name: str, period_s: float) -> int:
    """Collect until SIGTERM or SIGINT; return the exit code. Raises BadInventory for a collector that cannot run."""
    inventory = read_inventory(settings.hardware.inventory)
    collector = next((each for each in inventory.collectors if each.name == name), None)
    if collector is None:
        hint = did_you_mean(name, [each.name for each in inventory.collectors])
        raise BadInventory(f"{inventory.path}: there is no [collectors.{name}]", hint=hint)
    url = urlsplit(collector.url or "")
    if url.scheme != "https" and (url.scheme, url.hostname) not in (("http", "127.0.0.1"), ("http", "localhost")):
        hint = f'add url = "https://HEADNODE:8017" below [collectors.{name}]'
        raise BadInventory(f"{inventory.path}: collectors.{name} has no https address to post to", hint=hint)
    collector.credential.password()
    begin_log("%(message)s")
    asyncio.run(_collect(settings, inventory, collector, Pace(period_s, max(period_s, settings.hardware.timeout_s))))
    return 0


async def _collect(settings: Settings, inventory: Inventory, collector: Collector, pace: Pace) -> None:
    wire = Transport(timeout_s=settings.hardware.timeout_s)
    process = MeterCollector(collector, device_meters(*inventory.read_by(collector.name), wire), pace)
    LOG.info("%s: %s every %g s, for %s", collector.name, _devices_text(collector), pace.period_s, collector.url)
    both = asyncio.gather(process.sweep_forever(), process.post_forever())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, both.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await both
    finally:
        await process.close()
        await wire.close()
