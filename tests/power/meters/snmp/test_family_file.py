"""Families of PDUs as files: a site's own, and what is said where one is wrong."""

from pathlib import Path

import pytest

from offpeak.errors import BadInput
from offpeak.power.meters.snmp.family import KINDS, bundled_family, bundled_names, parse_family, parse_step, read_family

pytestmark = pytest.mark.quick

OWN = """\
models = "Our PDU"
no_value = [65535]

[[total]]
power = { oid = ".1.3.6.1.4.1.99999.1.1", unit = "0.1 W" }

[[outlet]]
power = { oid = "1.3.6.1.4.1.99999.2.1", unit = "W" }
energy = { oid = "1.3.6.1.4.1.99999.2.2", unit = "kWh" }
"""


def test_a_site_writes_its_own(tmp_path: Path) -> None:
    file = tmp_path / "our-pdu.toml"
    file.write_text(OWN)
    family = read_family(str(file))
    (total,), (outlet,) = family.sources["total"], family.sources["outlet"]
    assert family.name == "our-pdu"
    assert total.power is not None
    assert (total.power.oid, total.power.step) == ("1.3.6.1.4.1.99999.1.1", 0.1)
    assert outlet.energy is not None
    assert outlet.energy.step == 3.6e6


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_families_say_where_they_are_from(name: str, repository: Path) -> None:
    family = bundled_family(name)
    file = repository / "power" / "meters" / "snmp" / "families" / f"{name}.toml"
    assert file.read_text().startswith("# ")
    assert family.models != name
    assert family.mib
    assert family.detect
    assert set(family.sources) <= set(KINDS)


@pytest.mark.parametrize(
    ("text", "match", "hint"),
    [
        ('mib = "x"', r"has no \[\[total\]\]", "total"),
        ("total = 3", "total: 3 is not a list", "[[total]]"),
        ("[[total]]", "power is missing", "unit"),
        ('[[total]]\npower = { unit = "W" }', "oid is missing", "1.3.6.1.4.1"),
        ('[[total]]\npower = { oid = "1.3.6.1" }', "no unit of power", "10 W"),
        ('[[total]]\npower = { oid = "1.3.6.1", unit = "kWh" }', "no unit of power", "10 W"),
        ('[[total]]\npower = { oid = "PowerNet-MIB::x", unit = "W" }', "not a numeric OID", "1.3.6.1"),
        ('[[total]]\npower = { oid = "1.3", unit = "W", digitz = "1.3" }', "is not a key", "digits"),
        (
            '[[total]]\npower = { oid = "1.3", unit = "W" }\nonly = { oid = "1.3" }',
            "needs oid, and is or not",
            "is = [0]",
        ),
        (
            '[[total]]\npower = { oid = "1.3", unit = "W" }\nonly = { oid = "1.3", is = [0], not = [1] }',
            "needs oid, and is or not",
            "is = [0]",
        ),
        ('[[total]]\npower = { oid = "1.3.{kind}", unit = "W" }', "not a numeric OID", "1.3.6.1"),
        ('[[total]]\npower = { oid = "1.3", unit = "W", names = "1.4", like = "(" }', "regular expression", "\\."),
        ('[[energy]]\npower = { oid = "1.3", unit = "W" }', "energy is missing", "energy"),
        ('models = 7\n[[total]]\npower = { oid = "1.3", unit = "W" }', "not text", "quotes"),
        ('no_value = ["x"]\n[[total]]\npower = { oid = "1.3", unit = "W" }', "not a whole number", "quotes"),
        ("[[total", "Expected", "TOML"),
    ],
)
def test_error_in_a_family_file_is_named(tmp_path: Path, text: str, match: str, hint: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=match) as reported:
        read_family(str(file))
    assert str(file) in str(reported.value)
    assert hint in reported.value.hint


@pytest.mark.parametrize(
    ("text", "base", "step"),
    [
        ("W", "W", 1), ("10 W", "W", 10), ("0.1 kW", "W", 100), ("Wh", "J", 3600), ("0.1 kWh", "J", 3.6e5),
        ("MWh", "J", 3.6e9), ("kWh", "W", None), ("VA", "W", None), ("", "W", None),
    ],
)  # fmt: skip
def test_units_of_a_family_file_are_parsed(text: str, base: str, step: float | None) -> None:
    assert parse_step(text, base) == pytest.approx(step)


def test_the_family_in_the_handbook_is_one(repository: Path) -> None:
    page = (repository / "docs" / "how-to" / "pdus.md").read_text()
    text = page.rpartition("```toml\n")[2].partition("```")[0]
    family = parse_family(text.encode(), "our-pdu", "pdus.md")
    assert set(family.sources) == set(KINDS)
    assert family.no_value == {65535}
