"""The benchmark of docs/how-to/very-large-site.md, on one of its hundred cabinets."""

import pytest

from benchmarks import power_loop
from benchmarks.very_large_site import very_large_site_benchmarks


def test_each_part_can_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODES", "RUNNING", "PENDING", "NAMES"):
        monkeypatch.setattr(power_loop, name, getattr(power_loop, name))
    measured = list(very_large_site_benchmarks(cabinets=1))
    assert [each.what for each in measured] == [
        "reading the inventory",
        "all power states by one request",
        "a power decision, timeout:10min",
        "a power decision, ols:1h",
        "memory of all this at its peak",
    ]
    assert {each.data for each in measured} == {"1,000 nodes", "1,000 nodes, 2,000 jobs"}
    assert all(each.value > 0 for each in measured)
