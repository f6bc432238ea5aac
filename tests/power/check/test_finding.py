"""Equal findings of many nodes are one line."""

import pytest

from offpeak.errors import NoAnswer
from offpeak.power.check.findings import CheckVerdict, Finding, FindingGroup, failed_finding, group_findings

pytestmark = pytest.mark.quick


def test_equal_findings_are_grouped_in_order() -> None:
    findings = [Finding("bmc", f"n{at}", CheckVerdict.GOOD, "on") for at in range(3)]
    dead = [
        failed_finding("bmc", f"n{at}", NoAnswer(f"n{at} (BMC 10.0.0.{at}): silent", hint=f"ping 10.0.0.{at}"))
        for at in (3, 4)
    ]
    off = Finding("bmc", "n5", CheckVerdict.GOOD, "off")
    assert group_findings([*findings[:2], *dead, off, findings[2]]) == (
        FindingGroup("bmc", ("n0", "n1", "n2"), CheckVerdict.GOOD, "on", ""),
        FindingGroup("bmc", ("n3", "n4"), CheckVerdict.BAD, "silent", "ping 10.0.0.3"),
        FindingGroup("bmc", ("n5",), CheckVerdict.GOOD, "off", ""),
    )


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ("n3: silent", "silent"),
        ("n3 (BMC bmc3.site:623): silent", "silent"),
        ("n3: BMC bmc3.site: silent", "silent"),
        ("10.0.0.3:623: not tried: 10.0.0.1 refused the login bmc", "not tried: 10.0.0.1 refused the login bmc"),
        ("n33: silent", "n33: silent"),
        ("Get Chassis Status: 2 bytes", "Get Chassis Status: 2 bytes"),
        ("hardware.n3.driver: unknown", "hardware.n3.driver: unknown"),
    ],
)
def test_only_the_name_of_the_device_is_left_out(message: str, reply: str) -> None:
    assert failed_finding("bmc", "n3", NoAnswer(message)).message == reply


def test_no_findings_make_no_groups() -> None:
    assert group_findings([]) == ()
