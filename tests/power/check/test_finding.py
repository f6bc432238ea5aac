"""Sixty-four nodes with one trouble are one line."""

from offpeak.errors import NoAnswer
from power.check.finding import Alike, Finding, Verdict, alike, failed


def test_like_findings_are_put_together_in_order() -> None:
    findings = [Finding("bmc", f"n{at}", Verdict.GOOD, "on") for at in range(3)]
    dead = [
        failed("bmc", f"n{at}", NoAnswer(f"10.0.0.{at}: silent", hint="power?"), addresses=[f"10.0.0.{at}"])
        for at in (3, 4)
    ]
    off = Finding("bmc", "n5", Verdict.GOOD, "off")
    assert alike([*findings[:2], *dead, off, findings[2]]) == (
        Alike("bmc", ("n0", "n1", "n2"), Verdict.GOOD, "on", ""),
        Alike("bmc", ("n3", "n4"), Verdict.BAD, "silent", "power?"),
        Alike("bmc", ("n5",), Verdict.GOOD, "off", ""),
    )


def test_nothing_is_nothing() -> None:
    assert alike([]) == ()
