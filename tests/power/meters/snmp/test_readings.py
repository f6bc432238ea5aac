"""Laws of readings, whatever a PDU says: parts add up, nothing is invented, no value is never a zero."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Pdu
from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import NoSnmpValue, SnmpValues
from offpeak.power.meters.snmp.family import parse_family
from offpeak.power.meters.snmp.layout import find_layout
from offpeak.power.meters.snmp.pdu import make_readings

pytestmark = pytest.mark.quick

TOTAL, OUTLET = "1.3.6.1.4.1.9.1", "1.3.6.1.4.1.9.2"
FAMILY = parse_family(
    f"""
no_value = [65535]
[[total]]
power = {{ oid = "{TOTAL}", unit = "10 W" }}
[[outlet]]
power = {{ oid = "{OUTLET}", unit = "W" }}
""".encode(),
    "own",
    "own.toml",
)
PDU = Pdu("pdu1", "h", "own", Credential("c", password_file=Path("c")), outlets=(("1", "n1"), ("9", "n9")))

reply = st.integers(-2, 70_000) | st.just(65535) | st.just("n/a") | st.just(NoSnmpValue("genErr"))
columns = st.lists(reply, min_size=1, max_size=6)


def answers(totals: list[int | str | NoSnmpValue], outlets: list[int | str | NoSnmpValue]) -> SnmpValues:
    return {f"{column}.{row}": value for column, values in ((TOTAL, totals), (OUTLET, outlets))
            for row, value in enumerate(values, 1)}  # fmt: skip


def readings(walked: SnmpValues, later: SnmpValues) -> tuple[Reading, ...]:
    return make_readings(PDU, find_layout(FAMILY, walked), later, 1.0)


def is_number(value: object) -> bool:
    return isinstance(value, int) and value >= 0 and value != 65535


@given(columns, columns)
def test_the_total_is_the_sum_of_what_is_a_number_else_of_all_outlets(
    totals: list[int | str | NoSnmpValue], outlets: list[int | str | NoSnmpValue]
) -> None:
    walked = answers(totals, outlets)
    total, *parts = readings(walked, walked)
    known = [10 * int(value) for value in totals if is_number(value)]  # type: ignore[arg-type]
    metered = [int(value) for value in outlets if is_number(value)]  # type: ignore[arg-type]
    whole_w = sum(metered) if len(metered) == len(outlets) else None
    # A total of 0 W is believed, but not against outlets that draw more than three of its steps.
    is_none = not known or (sum(known) == 0 and whole_w is not None and whole_w > 30)
    assert total.power_w == (whole_w if is_none else pytest.approx(sum(known)))
    assert [part.power_w for part in parts[: len(outlets)]] == [v if is_number(v) else None for v in outlets]
    assert all(part.why for part in (total, *parts) if part.power_w is None)
    assert not is_none or total.why


@given(columns, columns)
def test_a_total_is_never_a_sum_of_less_than_before(
    before: list[int | str | NoSnmpValue], after: list[int | str | NoSnmpValue]
) -> None:
    after = (after * len(before))[: len(before)]
    total, *_ = readings(answers(before, [0]), answers(after, [0]))
    lost = any(is_number(was) and not is_number(now) for was, now in zip(before, after, strict=True))
    assert not lost or total.power_w is None


@given(columns)
def test_every_outlet_that_has_a_node_has_a_reading(outlets: list[int | str | NoSnmpValue]) -> None:
    walked = answers([1], outlets)
    by_node = {reading.node: reading for reading in readings(walked, walked) if reading.node}
    assert set(by_node) == {"n1", "n9"}
    assert replace(by_node["n9"], why="") == Reading("pdu1", "snmp", "outlet 9", None, 1.0, node="n9")


@given(columns)
def test_rows_that_were_listed_in_part_are_never_a_total(outlets: list[int | str | NoSnmpValue]) -> None:
    walked = answers([], outlets)
    total, *_ = make_readings(PDU, find_layout(FAMILY, walked, ["genErr after 1.3"]), walked, 1.0)
    assert total.power_w is None
    assert "rows may be missing: genErr after 1.3" in total.why
