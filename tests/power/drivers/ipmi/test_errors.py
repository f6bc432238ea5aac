"""Every way to fail becomes an error of ours: refused logins are told from silence, and are never tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import AccessRefused, BadAnswer, DeviceError, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential
from offpeak.power.drivers.ipmi.bmc import BmcAddress, BmcRefusal, error_of_code, error_of_text

pytestmark = pytest.mark.quick

BMC = BmcAddress("n1", "10.1.0.1", Credential("bmc", "admin"))


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        # pyghmi
        ("Incorrect password provided", AccessRefused),
        ("Unauthorized name in RAKP2", AccessRefused),
        ("Invalid role in RAKP2", AccessRefused),
        ("Invalid RAKP4 integrity code (wrong Kg?)", AccessRefused),
        ("User is not allowed requested privilege level, when the privilege level was set", AccessRefused),
        ("Insufficient resources to create new session (wait for existing sessions to timeout)", BadAnswer),
        ("No Cipher suite match with proposed security algorithms", NotSupported),
        ("timeout", NoAnswer),
        ("Session no longer connected", NoAnswer),
        ("Session failed to initialize", NoAnswer),
        # ipmitool -v
        ("> RAKP 2 HMAC is invalid; Error: Unable to establish IPMI v2 / RMCP+ session", AccessRefused),
        ("RAKP 2 message indicates an error : unauthorized name", AccessRefused),
        ("Error in open session response message : invalid authentication algorithm", NotSupported),
        ("Error: Unable to establish IPMI v2 / RMCP+ session", NoAnswer),
        ("Address lookup for no.such.invalid failed; Could not open socket!", NoAnswer),
        # ipmipower, ipmi-raw
        ("password invalid", AccessRefused),
        ("username invalid", AccessRefused),
        ("password verification timeout", AccessRefused),
        ("privilege level cannot be obtained for this user", AccessRefused),
        ("'on' requires atleast operator privilege", AccessRefused),
        ("cipher suite id unavailable", NotSupported),
        ("ipmi 2.0 unavailable", NotSupported),
        ("connection timeout", NoAnswer),
        ("invalid hostname", NoAnswer),
        ("BMC busy", BadAnswer),
        ("BMC error", BadAnswer),
    ],
)
def test_error_text_of_programs_is_classified(reply: str, kind: type[DeviceError]) -> None:
    error = error_of_text(BMC, reply)
    assert type(error) is kind
    assert reply in str(error)
    assert str(error).startswith("n1 (BMC 10.1.0.1): ")


@pytest.mark.parametrize(
    ("code", "kind"),
    [(0xC1, NotSupported), (0xD4, AccessRefused), (0xC0, BmcRefusal), (0xD5, BmcRefusal), (0x80, BmcRefusal)],
)
def test_completion_codes(code: int, kind: type[DeviceError]) -> None:
    error = error_of_code(BMC, "Get Chassis Status", code)
    assert type(error) is kind
    assert f"({code:02X}h)" in str(error)


def test_missing_privilege_names_what_to_change() -> None:
    hint = error_of_code(BMC, "Chassis Control", 0xD4).hint
    assert hint == "allow operator to user admin on the BMC's LAN channel, or set another privilege"


@given(st.text())
def test_any_text_is_an_error_in_one_line(reply: str) -> None:
    error = error_of_text(BMC, reply)
    assert isinstance(error, DeviceError)
    assert len(str(error).splitlines()) == 1


@given(st.integers(1, 255))
def test_any_code_is_an_error(code: int) -> None:
    assert isinstance(error_of_code(BMC, "x", code), DeviceError)
