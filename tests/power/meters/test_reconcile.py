"""PDU against BMC against RAPL: losses, impossible orders, wrong units."""

import pytest

from offpeak.power.meters.energy import Energy, MeasuringPoint, combine_parts, compare_points

pytestmark = pytest.mark.quick


def at(way: str, mean_w: float, covered_s: float = 3600, resolution_w: float = 1) -> MeasuringPoint:
    return MeasuringPoint(way, mean_w, covered_s, resolution_w)


def test_losses_are_reported_in_watts_and_as_a_share() -> None:
    supplies, board = compare_points([at("pdu", 400), at("bmc", 360), at("rapl", 180)])
    assert (supplies.power_w, supplies.share, supplies.problem) == (40, 0.1, "")
    assert (board.outer, board.inner, board.power_w, board.share, board.problem) == ("bmc", "rapl", 180, 0.5, "")


@pytest.mark.parametrize(
    ("places", "term"),
    [
        ([at("pdu", 300), at("bmc", 360)], "less outside than inside"),
        ([at("bmc", 100), at("rapl", 180)], "less outside than inside"),
        ([at("pdu", 3900), at("bmc", 360)], "factor of ten"),
        ([at("pdu", 39), at("bmc", 360)], "factor of ten"),
        ([at("bmc", 36), at("rapl", 360)], "factor of ten"),
        ([at("pdu", 400), at("bmc", 360, covered_s=600)], "not at the same time"),
        # Resolution, and the meters' own errors.
        ([at("pdu", 350, resolution_w=10), at("bmc", 362)], ""),
        # An idle node with accelerators uses ten times what its processors do.
        ([at("bmc", 300), at("rapl", 30)], ""),
        ([at("pdu", 0), at("bmc", 0)], ""),
    ],
)
def test_impossible_difference_is_named(places: list[MeasuringPoint], term: str) -> None:
    (between,) = compare_points(places)
    assert term in between.problem
    assert bool(between.problem) == bool(term)


def test_two_outlets_of_a_node_are_one_place() -> None:
    one = Energy(energy_j=3600.0 * 200, covered_s=3600, rounding_j=3600 * 0.5)
    both = combine_parts("pdu", [one, one])
    assert both == MeasuringPoint("pdu", 400, 3600, 2)
    assert combine_parts("pdu", [one, Energy()]) is None
    assert combine_parts("pdu", []) is None
