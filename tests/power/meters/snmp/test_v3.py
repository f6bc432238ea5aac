"""SNMPv3 against net-snmp's agent: every level and cipher, and keys that are wrong."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from needed_programs import need
from pdu_reading import PATIENT, SHORT, login, meter
from snmp_agents import User, snmpd

from offpeak.errors import AccessRefused, DeviceError, NoAnswer
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Pdu
from offpeak.power.drivers.logins import Logins
from offpeak.power.meters.port import Reading
from offpeak.power.meters.snmp.client import SnmpPatience
from offpeak.power.meters.snmp.engines import SnmpEngines

KEY, PRIVACY_KEY = "auth-key-12", "privacy-key-12"
USERS = (
    User("open"),
    User("signed", "SHA", KEY),
    User("old", "MD5", KEY, "AES", PRIVACY_KEY),
    User("usual", "SHA", KEY, "AES", PRIVACY_KEY),
    User("sha224", "SHA-224", KEY, "AES", PRIVACY_KEY),
    User("sha256", "SHA-256", KEY, "AES-192", PRIVACY_KEY),
    User("sha384", "SHA-384", KEY, "AES-256", PRIVACY_KEY),
    User("sha512", "SHA-512", KEY, "AES-256", PRIVACY_KEY),
)
WRONG_DIGESTS = "1.3.6.1.6.3.15.1.1.5"
FAMILY = '[[total]]\npower = {{ oid = "{}", unit = "W" }}\n'


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    need(["snmpd", "setpriv"], packages="snmpd")
    with snmpd(tmp_path_factory.mktemp("snmpd"), USERS) as place:
        yield place


def pdu(folder: Path, place: tuple[str, int], credential: Credential, *, oid: str = "1.3.6.1.2.1.1.7") -> Pdu:
    """Return a PDU whose watts are the number of services that snmpd says it has."""
    family = folder / "own.toml"
    family.write_text(FAMILY.format(oid))
    host, port = place
    return Pdu("pdu1", host, str(family), credential, port, "3" if credential.user else "2c")


def credential_of(folder: Path, user: User, *, key: str | None = None, privacy_key: str | None = None) -> Credential:
    key_file = login(folder, key or user.key).password_file if user.authentication else None
    privacy_file = login(folder, privacy_key or user.privacy_key).password_file if user.privacy else None
    return Credential("pdu", user.name, key_file, privacy_file, user.authentication or "SHA", user.privacy or "AES")


async def read_each(
    pdus: Sequence[Pdu], logins: Logins, *, patience: SnmpPatience = PATIENT
) -> list[Reading | DeviceError]:
    """Return the totals of PDUs that are read one after the other."""
    engines = SnmpEngines()
    reply: list[Reading | DeviceError] = []
    meters = [meter(each, engines, logins=logins, patience=patience) for each in pdus]
    for each in meters:
        try:
            reply.append((await each.read())[0])
        except DeviceError as problem:
            reply.append(problem)
    for each in meters:
        await each.close()
    return reply


@pytest.mark.parametrize("user", USERS, ids=lambda user: user.name)
def test_every_level_and_cipher_is_understood(tmp_path: Path, agent: tuple[str, int], user: User) -> None:
    (reply,) = asyncio.run(read_each([pdu(tmp_path, agent, credential_of(tmp_path, user))], Logins()))
    assert isinstance(reply, Reading), reply
    assert reply.power_w == 72


@pytest.mark.parametrize(
    ("user", "wrong"),
    [
        (USERS[3], {"key": "not-the-key-1"}),
        (User("nobody", "SHA", KEY), {}),
        (User("usual", "SHA-256", KEY, "AES", PRIVACY_KEY), {}),
    ],
    ids=["key", "user", "protocol"],
)
def test_invalid_snmpv3_login_is_refused_at_once(
    tmp_path: Path, agent: tuple[str, int], user: User, wrong: dict[str, str]
) -> None:
    (reply,) = asyncio.run(read_each([pdu(tmp_path, agent, credential_of(tmp_path, user, **wrong))], Logins()))
    assert isinstance(reply, AccessRefused), reply
    assert not any(term in f"{reply} {reply.hint}" for term in (KEY, PRIVACY_KEY, "not-the-key"))


def test_a_wrong_privacy_key_is_silence_and_the_hint_says_so(tmp_path: Path, agent: tuple[str, int]) -> None:
    credential = credential_of(tmp_path, USERS[3], privacy_key="not-the-key-1")
    (reply,) = asyncio.run(read_each([pdu(tmp_path, agent, credential)], Logins(), patience=SHORT))
    assert isinstance(reply, NoAnswer)
    assert "privacy key" in reply.hint


def wrong_digests(tmp_path: Path, agent: tuple[str, int]) -> float:
    (reply,) = asyncio.run(read_each([pdu(tmp_path, agent, login(tmp_path, "public"), oid=WRONG_DIGESTS)], Logins()))
    assert isinstance(reply, Reading), reply
    assert reply.power_w is not None
    return reply.power_w


def test_a_wrong_key_is_sent_once(tmp_path: Path, agent: tuple[str, int]) -> None:
    before = wrong_digests(tmp_path, agent)
    wrong = credential_of(tmp_path, USERS[3], key="not-the-key-2")
    reply = asyncio.run(read_each([pdu(tmp_path, agent, wrong)] * 3, Logins()))
    assert all(isinstance(each, AccessRefused) for each in reply)
    assert wrong_digests(tmp_path, agent) == before + 1


def test_two_keys_of_one_user_do_not_overwrite_each_other(tmp_path: Path, agent: tuple[str, int]) -> None:
    right = pdu(tmp_path, agent, credential_of(tmp_path, USERS[3]))
    wrong = pdu(tmp_path, agent, credential_of(tmp_path, USERS[3], key="not-the-key-3"))
    reply = asyncio.run(read_each([right, wrong, right], Logins()))
    assert [isinstance(each, Reading) for each in reply] == [True, False, True]


def test_a_mended_key_is_tried_again(tmp_path: Path, agent: tuple[str, int]) -> None:
    credential = credential_of(tmp_path, USERS[3], key="not-the-key-4")
    logins = Logins()
    (refused,) = asyncio.run(read_each([pdu(tmp_path, agent, credential)], logins))
    assert credential.password_file
    credential.password_file.write_text(KEY)
    (reply,) = asyncio.run(read_each([pdu(tmp_path, agent, credential)], logins))
    assert (type(refused), type(reply)) == (AccessRefused, Reading)
