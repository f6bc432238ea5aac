"""Header directives."""

import pytest

from offpeak.sim_backend.traces.swf.read import parse_header

pytestmark = pytest.mark.quick


def test_directives_are_found_among_remarks() -> None:
    header = parse_header(
        (
            ";     Computer: IBM SP2",
            ";  MaxProcs:  128 ",
            ";MaxNodes: 64 (two processors each)",
            "; UnixStartTime: 893466664",
            "; TimeZoneString: US/Pacific",
            "; NodePowerColumn: 20",
            "; Note: MaxProcs: 5",
            ";",
        )
    )
    assert (header.processors, header.nodes, header.unix_start_s) == (128, 64, 893466664)
    assert (header.time_zone, header.power_column, header.notes) == ("US/Pacific", 20, ())


def test_a_silent_header_is_none_everywhere() -> None:
    header = parse_header(())
    assert (header.processors, header.nodes, header.unix_start_s, header.time_zone, header.power_column) == (None,) * 5


def test_the_first_directive_of_a_name_counts() -> None:
    assert parse_header(("; MaxProcs: 100", "; MaxProcs: 200")).processors == 100


@pytest.mark.parametrize("value", ["0", "-1"])
def test_minus_one_and_zero_are_unknown(value: str) -> None:
    assert parse_header((f"; MaxProcs: {value}",)).processors is None


@pytest.mark.parametrize("zone", ["Atlantis", "../etc/passwd", "Europe", "/etc/localtime", "Europe/Berlin\x00"])
def test_an_unknown_zone_becomes_a_note(zone: str) -> None:
    header = parse_header((f"; TimeZoneString: {zone}",))
    assert header.time_zone is None
    assert header.notes == (f"header: TimeZoneString is not a known time zone and is ignored: {zone!r}",)


def test_numbers_that_make_no_sense_become_notes() -> None:
    header = parse_header(("; MaxProcs: many", "; NodePowerColumn: 5"))
    assert (header.processors, header.power_column) == (None, None)
    assert header.notes == (
        "header: MaxProcs is not a number and is ignored: 'many'",
        "header: NodePowerColumn is a field of the format itself and is ignored: 5",
    )
