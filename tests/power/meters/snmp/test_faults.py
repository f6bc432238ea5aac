"""What goes wrong with a PDU in service: silence, restarts, rows that go or move, errors for one number of many."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from own_agent import OwnAgent, own_agent
from pdu_reading import PATIENT, SHORT, login, meter

from offpeak.errors import BadInput, BadInventory, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.energy import CounterTotal, add_counter_value
from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import SnmpPatience
from offpeak.power.meters.snmp.engines import LISTED_AT_ONCE, SnmpEngines
from offpeak.power.meters.snmp.pdu import SnmpPdu

UPTIME = "1.3.6.1.2.1.1.3.0"
RPDU2 = "1.3.6.1.4.1.318.1.1.26"
POWER, ENERGY = f"{RPDU2}.4.3.1.5", f"{RPDU2}.4.3.1.9"
OUTLETS = f"{RPDU2}.9.4.3.1"
SCALAR = "1.3.6.1.4.1.318.1.1.12.1.16.0"


def apc() -> dict[str, int | str]:
    """One unit of 1200 W with two outlets."""
    outlets = {
        f"{OUTLETS}.{column}.{row}": value
        for row, *values in ((1, 1, 1, 700, 10), (2, 1, 2, 500, 20))
        for column, value in zip((2, 4, 7, 11), values, strict=True)
    }
    return {UPTIME: 1000, f"{POWER}.1": 120, f"{ENERGY}.1": 5000, **outlets}


def serve(
    folder: Path,
    values: dict[str, int | str],
    scenario: Callable[[OwnAgent, SnmpPdu], Awaitable[None]],
    *,
    patience: SnmpPatience = PATIENT,
    **others: object,
) -> None:
    async def run() -> None:
        async with own_agent(values) as (agent, port):
            arguments = {"family": "apc", "credential": login(folder, "public"), "port": port} | others
            reader = meter(Pdu("pdu1", "127.0.0.1", **arguments), SnmpEngines(), patience=patience)  # type: ignore[arg-type]
            try:
                await scenario(agent, reader)
            finally:
                await reader.close()

    asyncio.run(run())


async def total(reader: SnmpPdu) -> Reading:
    return (await reader.read())[0]


def test_rows_are_walked_once_and_then_requested_in_one_packet(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        await reader.read()
        walks = agent.walks
        for _ in range(3):
            assert (await total(reader)).power_w == 1200
        assert agent.walks == walks
        assert agent.requested == [1, 7, 7, 7, 7]

    serve(tmp_path, apc(), scenario)


def test_a_silent_pdu_is_reported_and_found_again(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        assert (await total(reader)).power_w == 1200
        agent.silent = True
        reader._agent._patience = SHORT
        with pytest.raises(NoAnswer, match="does not answer") as reported:
            await reader.read()
        assert "wrong community" in reported.value.hint
        agent.silent = False
        reader._agent._patience = PATIENT
        assert (await total(reader)).power_w == 1200

    serve(tmp_path, apc(), scenario)


def test_after_a_restart_rows_are_looked_up_again(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        await reader.read()
        agent.values |= {UPTIME: 5, f"{POWER}.2": 30, f"{ENERGY}.1": 0, f"{ENERGY}.2": 0}
        again = await total(reader)
        assert (again.power_w, again.energy_j) == (1500, 0)
        assert "restarted" in again.why
        assert (await total(reader)).why == ""

    serve(tmp_path, apc(), scenario)


def test_a_restart_is_seen_after_a_long_silence_too(tmp_path: Path) -> None:
    async def run() -> None:
        now_s = 0.0
        async with own_agent(apc()) as (agent, port):
            pdu = Pdu("pdu1", "127.0.0.1", "apc", login(tmp_path, "public"), port)
            reader = SnmpPdu(pdu, engines=SnmpEngines(), logins=Logins(), clock=lambda: now_s)
            await reader.read()
            # It has been up for longer than it was at the first look, and an hour has passed.
            now_s = 3600.0
            agent.values |= {UPTIME: 2000, f"{POWER}.2": 30}
            again = await total(reader)
            assert (again.power_w, again.why) == (1500, "the PDU restarted: its rows were looked up again")
            await reader.close()

    asyncio.run(run())


def test_rows_are_looked_up_of_a_few_pdus_at_a_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with own_agent(apc()) as (agent, port):
            engines, arguments = SnmpEngines(), {"family": "apc", "credential": login(tmp_path, "public"), "port": port}
            known, new = (meter(Pdu(name, "127.0.0.1", **arguments), engines) for name in ("known", "new"))  # type: ignore[arg-type]
            dead = meter(Pdu("dead", "127.0.0.2", **arguments), engines, patience=SHORT)  # type: ignore[arg-type]
            await known.read()
            walks = agent.walks
            for _ in range(LISTED_AT_ONCE):
                await engines.listing().acquire()
            waiting = asyncio.ensure_future(new.read())
            with pytest.raises(NoAnswer):
                await dead.read()
            assert (await total(known)).power_w == 1200
            assert (waiting.done(), agent.walks) == (False, walks)
            engines.listing().release()
            assert (await waiting)[0].power_w == 1200
            for each in (known, new, dead):
                await each.close()

    asyncio.run(run())


def test_an_answer_that_comes_while_all_is_closed_disturbs_nobody(tmp_path: Path) -> None:
    async def run() -> list[object]:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with own_agent(apc()) as (_, port):
            pdu = Pdu("pdu1", "127.0.0.1", "apc", login(tmp_path, "public"), port)
            for rounds in range(2, 7):
                reader = meter(pdu, SnmpEngines())
                await reader.read()
                reading = asyncio.ensure_future(reader.read())
                for _ in range(rounds):
                    await asyncio.sleep(0.0)
                reading.cancel()
                await reader.close()
                await asyncio.sleep(0.01)
        return complaints

    assert asyncio.run(run()) == []


def test_outlets_that_move_keep_their_nodes(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        before = {reading.node: reading.power_w for reading in await reader.read()}
        assert before["n1"] == 500
        # The first outlet is gone, and what was row 2 is row 1 now.
        for column in (2, 4, 7, 11):
            agent.values[f"{OUTLETS}.{column}.1"] = agent.values.pop(f"{OUTLETS}.{column}.2")
        readings = await reader.read()
        assert "looked up again" in readings[0].why
        assert {reading.node: reading.power_w for reading in readings}["n1"] == 500

    serve(tmp_path, apc(), scenario, outlets=(("2", "n1"),))


def test_a_node_at_an_outlet_without_a_meter_has_no_value(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        (reading,) = [reading for reading in await reader.read() if reading.node == "n9"]
        assert (reading.part, reading.power_w) == ("outlet 9", None)
        assert "no outlet 9" in reading.why

    serve(tmp_path, apc(), scenario, outlets=(("9", "n9"),))


def test_a_row_that_loses_its_value_takes_the_total_with_it(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        assert (await total(reader)).power_w == 1500
        agent.values[f"{POWER}.2"] = -1
        partial = await total(reader)
        assert (partial.power_w, "row 2" in partial.why) == (None, True)

    serve(tmp_path, apc() | {f"{POWER}.2": 30}, scenario)


def test_a_row_that_never_had_a_value_is_left_out_and_reported(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        partial = await total(reader)
        assert (partial.power_w, "without row 2" in partial.why) == (1200, True)

    serve(tmp_path, apc() | {f"{POWER}.2": -1}, scenario)


@pytest.mark.parametrize(
    ("reply", "term"), [(12, "doubtful"), (90, "doubtful"), (1200, "doubtful"), (118, ""), (240, "")]
)
def test_a_total_that_its_outlets_contradict_is_doubtful_and_not_hidden(tmp_path: Path, reply: int, term: str) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        doubted = await total(reader)
        assert doubted.power_w == 10 * reply
        assert doubted.why.partition(":")[0] == term

    serve(tmp_path, apc() | {f"{POWER}.1": reply}, scenario)


def test_a_total_of_zero_gives_way_to_outlets_that_draw_power(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        taken = await total(reader)
        assert (taken.power_w, taken.resolution_w) == (1200, 10)
        assert "doubtful: 0 W in all, but its outlets add up to 1200 W" in taken.why
        agent.values |= {f"{OUTLETS}.7.1": 0, f"{OUTLETS}.7.2": 0}
        off = await total(reader)
        assert (off.power_w, off.why) == (0, "")

    serve(tmp_path, apc() | {f"{POWER}.1": 0}, scenario)


def test_a_phase_that_is_lost_takes_the_sum_of_phases_with_it(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        assert (await total(reader)).power_w == 1100
        agent.values[f"{power}.2"] = -1
        lost = await total(reader)
        assert (lost.power_w, lost.why) == (None, "phase 2: the PDU reports -1, which means no value")
        agent.values[f"{power}.2"] = 60
        assert (await total(reader)).power_w == 1200

    power = f"{RPDU2}.6.3.1.7"
    serve(tmp_path, {UPTIME: 1, f"{POWER}.1": -1, f"{power}.1": 60, f"{power}.2": 50}, scenario)


def test_missing_rows_are_named_and_the_rest_of_many_counted(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        none = await total(reader)
        reply = [f"outlet {row}: the PDU reports -1, which means no value" for row in range(2, 8)]
        assert (none.power_w, none.why) == (None, "; ".join(["the PDU has no total of its own", *reply, "and 17 more"]))

    outlets = {f"{OUTLETS}.{column}.{row}": value for row in range(1, 25)
               for column, value in ((4, row), (7, 100 if row == 1 else -1))}  # fmt: skip
    serve(tmp_path, {UPTIME: 1, **outlets}, scenario)


def test_an_outlet_that_fails_takes_the_sum_of_outlets_with_it(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        whole = await total(reader)
        assert (whole.power_w, whole.why) == (1200, "added up from its 2 outlets: the PDU has no total of its own")
        agent.values |= {f"{OUTLETS}.7.1": 0, f"{OUTLETS}.7.2": 0}
        off = await total(reader)
        assert (off.power_w, off.why.rpartition("; ")[2]) == (0, "doubtful: outlets without a meter may show 0 W, too")
        agent.broken = {f"{OUTLETS}.7.2"}
        failed = await total(reader)
        assert (failed.power_w, failed.why) == (None, "outlet 2: the PDU reports genErr")

    serve(tmp_path, {oid: value for oid, value in apc().items() if not oid.startswith(POWER)}, scenario)


def test_counters_that_wrap_one_by_one_never_count_backwards(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        so_far = CounterTotal()
        for wh in ((9_998_990, 9_998_000), (9_998_998, 9_998_010), (5, 9_998_020), (15, 9_998_030)):
            agent.values |= {f"{phase}.15.{row}": value for row, value in enumerate(wh, 1)}
            so_far = add_counter_value(so_far, (await total(reader)).energy_j)
        assert (so_far.energy_j, so_far.resets) == ((18 + 20) * 3600, 1)

    phase = "1.3.6.1.4.1.21239.5.2.3.2.1"
    rows = {f"{phase}.{column}.{row}": value for row in (1, 2) for column, value in ((12, 700), (15, 0))}
    serve(tmp_path, {UPTIME: 1, **rows}, scenario, family="vertiv")


@pytest.mark.parametrize(
    ("wh", "energy_j"), [({}, None), ({f"{ENERGY}.2": -1}, None), ({f"{ENERGY}.2": 3}, 5003 * 3.6e5)]
)
def test_the_counter_of_one_unit_is_not_that_of_a_chain(
    tmp_path: Path, wh: dict[str, int | str], energy_j: float | None
) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        chain = await total(reader)
        assert (chain.power_w, chain.energy_j) == (1500, energy_j)

    serve(tmp_path, apc() | {f"{POWER}.2": 30} | wh, scenario)


@pytest.mark.parametrize("missing", [None, f"{POWER}.1"])
def test_one_counter_of_a_unit_is_that_of_its_phases(tmp_path: Path, missing: str | None) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        whole = await total(reader)
        assert (whole.power_w, whole.energy_j) == (1200, 5000 * 3.6e5)

    rows = {f"{RPDU2}.6.3.1.7.{row}": 40 for row in (1, 2, 3)}
    serve(tmp_path, {oid: value for oid, value in (apc() | rows).items() if oid != missing}, scenario)


TOWERS, INFEEDS = "1.3.6.1.4.1.1718.3.2.1.1.14", "1.3.6.1.4.1.1718.3.2.2.1.12"


@pytest.mark.parametrize(("towers", "energy_j"), [((1, 2), 700 * 3.6e6), ((1,), None)])
def test_counters_of_towers_are_those_of_their_infeeds(
    tmp_path: Path, towers: tuple[int, ...], energy_j: float | None
) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        whole = await total(reader)
        assert (whole.power_w, whole.energy_j) == (1000, energy_j)

    infeeds = {f"{INFEEDS}.{tower}.{infeed}": 250 for tower in (1, 2) for infeed in (1, 2)}
    counters = {f"{TOWERS}.{tower}": 350 for tower in towers}
    serve(tmp_path, {UPTIME: 1, **infeeds, **counters}, scenario, family="sentry3")


def test_an_error_for_one_number_leaves_the_others(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        agent.broken = {f"{OUTLETS}.7.1"}
        readings = {reading.part: reading for reading in await reader.read()}
        assert readings["outlet 1"].power_w is None
        assert "genErr" in readings["outlet 1"].why
        assert readings["outlet 2"].power_w == 500
        assert readings["total"].power_w == 1200

    serve(tmp_path, apc(), scenario)


def test_a_small_agent_is_queried_for_less_at_once(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        agent.limit = 2
        assert (await total(reader)).power_w == 1200

    serve(tmp_path, apc(), scenario)


def test_v1_loses_no_number_to_one_that_is_missing(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        assert (await total(reader)).power_w == 1200
        del agent.values[f"{ENERGY}.1"]
        later = await total(reader)
        assert (later.power_w, later.energy_j) == (1200, None)
        assert "is gone" in later.why

    serve(tmp_path, apc(), scenario, version="1")


def test_the_old_number_serves_where_the_new_one_says_none(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        old = await total(reader)
        assert (old.power_w, old.resolution_w) == (192, 1)

    serve(tmp_path, {UPTIME: 1, f"{POWER}.1": -1, SCALAR: 192}, scenario)


def test_a_device_that_is_no_pdu_has_no_family(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        with pytest.raises(NotSupported, match="no known family"):
            await reader.read()

    serve(tmp_path, {UPTIME: 1}, scenario, family="auto")


def test_a_wrong_family_has_no_value_and_says_so(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        assert "family enlogic" in (await total(reader)).why

    serve(tmp_path, apc(), scenario, family="enlogic")


def test_dead_pdus_hold_nobody(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as deaf:
            deaf.bind(("127.0.0.1", 0))
            credential = login(tmp_path, "public")
            engines = SnmpEngines()
            pdus = [Pdu(f"dead{i}", "127.0.0.1", "apc", credential, deaf.getsockname()[1]) for i in range(40)]
            dead = [meter(pdu, engines, patience=SHORT) for pdu in pdus]
            *silent, read = await asyncio.gather(*(each.read() for each in [*dead, reader]), return_exceptions=True)
            assert all(isinstance(each, NoAnswer) for each in silent)
            assert isinstance(read, tuple)
            for each in dead:
                await each.close()

    serve(tmp_path, apc(), scenario)


def test_a_name_without_address_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        pdu = Pdu("pdu1", "no-such-host.invalid", "apc", login(tmp_path, "public"))
        reader = meter(pdu, SnmpEngines(), patience=SnmpPatience(timeout_s=5))
        with pytest.raises(NoAnswer, match="no address for no-such-host"):
            await reader.read()
        await reader.close()

    asyncio.run(scenario())


def test_a_community_is_never_shown(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        agent.silent = True
        with pytest.raises(NoAnswer) as reported:
            await reader.read()
        assert "s3cret" not in f"{reported.value} {reported.value.hint} {reported.value!r}"

    serve(tmp_path, apc(), scenario, patience=SHORT, credential=login(tmp_path, "s3cret"))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"version": "4"}, "not a version of SNMP"),
        ({"version": "3"}, "needs a user"),
        ({"version": "3", "credential": Credential("pdu", "mon", authentication="SHA-1")}, "authentication"),
        ({"version": "3", "credential": Credential("pdu", "mon", privacy="ROT13")}, "privacy"),
    ],
)
def test_unknown_snmp_value_is_reported(tmp_path: Path, arguments: dict[str, object], match: str) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        with pytest.raises(BadInventory, match=match):
            await reader.read()

    serve(tmp_path, apc(), scenario, **arguments)


def test_an_unknown_family_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a family of PDUs") as reported:
        meter(Pdu("pdu1", "127.0.0.1", "enlogik", login(tmp_path, "public")), SnmpEngines())
    assert "enlogic" in reported.value.hint


@pytest.mark.parametrize(("reply", "doubtful"), [(120, False), (1200, True), (12, True)])
def test_amperes_and_volts_tell_a_unit_that_is_wrong_by_ten(tmp_path: Path, reply: int, doubtful: bool) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        doubted = await total(reader)
        assert doubted.power_w == 10 * reply
        assert ("amperes times volts 1265 VA" in doubted.why) is doubtful

    # The unit and its only phase agree: both would be wrong by ten.
    phase = {f"{RPDU2}.6.3.1.{column}.1": value for column, value in ((5, 55), (6, 230), (7, reply))}
    serve(tmp_path, {UPTIME: 1, f"{POWER}.1": reply, **phase}, scenario)


def test_rows_that_cannot_be_distinguished_are_doubtful(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        assert "does not report which of its rows add up" in (await total(reader)).why

    column = "1.3.6.1.4.1.3808.1.1.3.2.3.1.1.7"
    serve(tmp_path, {UPTIME: 1, f"{column}.1": 219, f"{column}.2": 219}, scenario, family="cyberpower")


def test_text_that_is_no_number_is_no_value(tmp_path: Path) -> None:
    async def scenario(_: OwnAgent, reader: SnmpPdu) -> None:
        silent = await total(reader)
        assert silent.power_w is None
        assert "'nan'" in silent.why

    serve(tmp_path, {UPTIME: 1, f"{POWER}.1": "nan"}, scenario)


@pytest.mark.parametrize("version", ["1", "2c"])
def test_a_community_goes_out_as_it_stands_in_its_file(tmp_path: Path, version: str) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        await reader.read()
        assert agent.communities == {"gehöim".encode()}

    serve(tmp_path, apc(), scenario, credential=login(tmp_path, "gehöim"), version=version)


def test_closing_one_pdu_leaves_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with own_agent(apc()) as (_, port):
            engines = SnmpEngines()
            pdu = Pdu("pdu1", "127.0.0.1", "apc", login(tmp_path, "public"), port)
            one, other = meter(pdu, engines), meter(pdu, engines)
            await one.read()
            await other.read()
            await one.close()
            assert (await total(other)).power_w == 1200
            await other.close()
            # Closed is not gone.
            assert (await total(one)).power_w == 1200
            await one.close()

    asyncio.run(run())


def test_a_read_may_be_cancelled(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        agent.silent = True
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.05)
        agent.silent = False
        assert (await total(reader)).power_w == 1200

    serve(tmp_path, apc(), scenario)


def test_a_unit_that_is_not_available_is_no_value_and_not_zero(tmp_path: Path) -> None:
    async def scenario(agent: OwnAgent, reader: SnmpPdu) -> None:
        assert (await total(reader)).power_w == 1500
        agent.values |= {f"{column}.5.2": 0, f"{column}.9.2": 0}
        silent = await total(reader)
        assert (silent.power_w, "not available" in silent.why) == (None, True)

    column = "1.3.6.1.4.1.21239.5.2.3.1.1"
    units = {f"{column}.{number}.{unit}": value for unit, power_w in ((1, 1000), (2, 500))
             for number, value in ((5, 1), (9, power_w))}  # fmt: skip
    serve(tmp_path, {UPTIME: 1, **units}, scenario, family="vertiv")
