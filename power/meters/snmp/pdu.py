"""A PDU as a meter: its rows are looked up by one walk, then asked for in few packets."""

import asyncio
import time
from collections.abc import Callable

from offpeak.errors import NoAnswer, NotSupported
from offpeak.machines.inventory import Pdu
from power.drivers.logins import Logins
from power.meters.port import Reading
from power.meters.snmp.agent import USUAL, Agent, Patience
from power.meters.snmp.answers import Answers, Nothing, number_of
from power.meters.snmp.detect import SYSTEM, candidates, is_of
from power.meters.snmp.engines import Engines
from power.meters.snmp.family import Family
from power.meters.snmp.family_file import family_named
from power.meters.snmp.layout import Layout, layout_of
from power.meters.snmp.login import Login, login_of
from power.meters.snmp.readings import readings_of
from power.meters.snmp.rows import Row
from power.meters.snmp.uptimes import Uptime, after, restarted

UPTIME = "1.3.6.1.2.1.1.3.0"
LONGEST_LOOK_S = 60.0
"""Looking up rows is many packets, each of which may be slow: longer than this it is given up."""


class SnmpPdu:
    """One PDU. Its engines and logins are shared with all others; `clock` gives the time of a reading."""

    way = "snmp"

    def __init__(
        self,
        pdu: Pdu,
        *,
        engines: Engines,
        logins: Logins,
        patience: Patience = USUAL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = pdu.name
        self._pdu, self._logins, self._clock = pdu, logins, clock
        self._engines = engines
        self._named = None if pdu.family == "auto" else family_named(pdu.family)
        self._detected: Family | None = None
        self._agent = Agent(pdu, engines=engines, user=self, patience=patience)
        self._layout: Layout | None = None
        self._uptime: Uptime | None = None

    async def read(self) -> tuple[Reading, ...]:
        """Return the total and all phases and outlets; DeviceError if the PDU cannot be read at all."""
        login = login_of(self._pdu)
        if login.version != "3":
            return await self._read(login)
        # A refused key must go neither to this PDU nor to others again.
        secret = login.keys
        return await self._logins.log_in(self._pdu.credential, self._pdu.host, lambda: self._read(login), secret=secret)

    async def close(self) -> None:
        """Forget what was looked up, and leave the shared engines."""
        self._layout = self._uptime = self._detected = None
        self._engines.release(self)

    async def _read(self, login: Login) -> tuple[Reading, ...]:
        note = ""
        layout = self._layout or await self._look_up(login)
        answers = await self._ask(login, layout)
        if moved := self._moved(layout, answers):
            note = f"{moved}: its rows were looked up again"
            self._detected = None
            layout = await self._look_up(login)
            answers = await self._ask(login, layout)
        self._uptime = self._uptime_in(answers)
        return readings_of(self._pdu, layout, answers, self._clock(), note=note)

    async def _ask(self, login: Login, layout: Layout) -> Answers:
        return await self._agent.get(login, (UPTIME, *layout.oids()))

    def _moved(self, layout: Layout, answers: Answers) -> str:
        """Return why the known rows are not to be trusted, "" if they are."""
        uptime = self._uptime_in(answers)
        if uptime is not None and restarted(self._uptime, uptime):
            return "the PDU restarted"
        rows = (*layout.total, *layout.energy, *layout.phases, *layout.outlets)
        for row in rows:
            if any(_is_gone(answers, oid) for oid in row.oids()) or _is_renamed(row, answers):
                return f"row {row.name} is gone"
        return ""

    def _uptime_in(self, answers: Answers) -> Uptime | None:
        ticks = number_of(answers[UPTIME])
        return None if ticks is None else after(self._uptime, ticks, self._clock())

    async def _look_up(self, login: Login) -> Layout:
        # Who is dead has to be found out without keeping others from looking.
        await self._agent.get(login, (UPTIME,))
        try:
            async with self._engines.listing(), asyncio.timeout(LONGEST_LOOK_S):
                layout = await self._found(login)
        except TimeoutError:
            hint = "it answers, but too slowly; read it with fewer others at once"
            raise NoAnswer(f"{self.name}: took over {LONGEST_LOOK_S:g} s to list its rows", hint=hint) from None
        # Without any row the PDU may just be starting: it is looked up again next time.
        self._layout = layout if layout.oids() else None
        return layout

    async def _found(self, login: Login) -> Layout:
        if self._detected:
            return await self._laid_out(login, self._detected)
        if self._named and not self._named.by_model():
            return await self._laid_out(login, self._named)
        said = (await self._agent.get(login, (SYSTEM,)))[SYSTEM]
        system = said if isinstance(said, str) else ""
        if self._named:
            return await self._laid_out(login, self._named.for_system(system))
        likeliest, *others = candidates(system)
        best = await self._laid_out(login, likeliest)
        for family in others:
            if best.tells():
                break
            if await self._has_total(login, family):
                laid_out = await self._laid_out(login, family)
                best = laid_out if laid_out.tells() else best
        if best.tells() or is_of(best.family, system):
            self._detected = best.family
            return best
        hint = "name its family in the inventory, or write one: docs/how-to/pdus.md tells how"
        raise NotSupported(f"{self.name}: sysObjectID {system or 'none'} is of no known family of PDUs", hint=hint)

    async def _has_total(self, login: Login, family: Family) -> bool:
        columns = (source.power for source in family.sources["total"] if source.power)
        return any([await self._agent.has(login, column.names or column.oid) for column in columns])

    async def _laid_out(self, login: Login, family: Family) -> Layout:
        walked: Answers = {}
        troubles = []
        for column in family.columns():
            below, trouble = await self._agent.walk(login, column)
            walked |= below
            troubles += [trouble] if trouble else []
        return layout_of(family, walked, troubles)


def _is_gone(answers: Answers, oid: str) -> bool:
    answer = answers.get(oid)
    return isinstance(answer, Nothing) and answer.gone


def _is_renamed(row: Row, answers: Answers) -> bool:
    return any(cell.name_oid and answers.get(cell.name_oid) != cell.name for cell in row.cells())
