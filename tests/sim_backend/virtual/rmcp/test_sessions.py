"""What no well-behaved client does: damaged, repeated and stray datagrams, too many sessions, silence, wrong proofs."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_bmc_client import ADMIN, PlainClient, new_desk, renumbered, request

from offpeak.sim_backend.virtual.node import BmcFaults, BmcUser
from offpeak.sim_backend.virtual.rmcp.sessions import (
    IPMI_CLASS,
    RAKP1,
    RAKP3,
    SUITES,
    CipherSuite,
    Malformed,
    Packet,
    SequenceWindow,
    decrypted,
    encrypted,
    write_packet,
)

pytestmark = pytest.mark.quick

APP, CHASSIS = 0x06, 0x00
STATUS = request(CHASSIS, 0x01)
ON = b"\x00\x21\x00\x40"


def logged_in(suite: CipherSuite = SUITES[1]) -> PlainClient:
    client = PlainClient(new_desk(), suite)
    assert client.log_in()
    return client


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: str(suite.number))
def test_a_session_answers(suite: CipherSuite) -> None:
    client = logged_in(suite)
    assert client.ask(CHASSIS, 0x01) == ON
    assert (client.desk.bmc.logins.begun, client.desk.bmc.logins.accepted) == (1, 1)


def test_any_bit_that_is_not_as_it_was_sent_is_noticed() -> None:
    client = logged_in()
    sound = client.sealed(STATUS)
    for bit in range(8 * len(sound)):
        broken = bytearray(sound)
        broken[bit // 8] ^= 1 << bit % 8
        assert client.send(bytes(broken)) is None
    assert client.read(client.send(sound)) == ON


@given(st.binary(max_size=80))
def test_bytes_of_any_kind_do_no_harm(stray: bytes) -> None:
    desk = new_desk()
    client = PlainClient(desk)
    for head in (b"", IPMI_CLASS, IPMI_CLASS + b"\x06\x10" + bytes(8), IPMI_CLASS + b"\x06\x12" + bytes(8)):
        client.send(head + len(stray).to_bytes(2, "little") + stray)
        client.send(head + stray)
    assert desk.bmc.orders == []
    assert PlainClient(desk).log_in()


def test_a_packet_is_accepted_once() -> None:
    client = logged_in()
    datagram = client.sealed(request(CHASSIS, 0x02, b"\x00"))
    client.ask(APP, 0x3B, b"\x04")
    assert client.read(client.send(datagram)) == b"\x00"
    assert client.send(datagram) is None
    assert client.desk.bmc.orders == [0]


def test_packets_that_overtake_each_other_are_accepted_and_those_too_far_off_are_not() -> None:
    client = logged_in()
    for number, answered in [(10, True), (9, True), (9, False), (27, False), (26, True), (10, False), (11, True)]:
        reply = client.send(renumbered(client, STATUS, number))
        assert (reply is not None) == answered, number


@given(st.lists(st.integers(1, 60), max_size=60))
def test_a_window_lets_each_number_through_at_most_once(numbers: list[int]) -> None:
    window, through = SequenceWindow(), []
    for number in numbers:
        after = window.after(number)
        if after is not None:
            window = after
            through.append(number)
    assert len(through) == len(set(through))


def test_the_window_goes_on_where_numbers_begin_again() -> None:
    window = SequenceWindow(0xFFFFFFFF).after(3)
    assert window is not None
    assert window.after(0xFFFFFFFE) is not None


def test_the_sixth_session_is_refused() -> None:
    desk = new_desk()
    clients = [PlainClient(desk) for _ in range(6)]
    assert [client.log_in() for client in clients] == [True] * 5 + [False]
    assert clients[5].status == 0x01
    own_id = clients[0].session.console_id if clients[0].session else 0
    assert clients[0].ask(APP, 0x3C, own_id.to_bytes(4, "little")) == b"\x00"
    assert clients[5].log_in()


def test_logins_that_nobody_completes_give_way() -> None:
    desk = new_desk()
    for _ in range(12):
        assert not PlainClient(desk, password=b"wrong").log_in()
    assert desk.bmc.logins.failed == 12
    assert PlainClient(desk).log_in()


def test_a_silent_session_is_closed_after_a_minute() -> None:
    client = logged_in()
    client.now_s = 59.0
    assert client.ask(CHASSIS, 0x01) == ON
    client.now_s = 118.0
    assert client.ask(CHASSIS, 0x01) == ON
    client.now_s = 179.0
    assert client.ask(CHASSIS, 0x01) is None


def test_a_wrong_proof_is_refused_and_counted() -> None:
    client = PlainClient(new_desk(), password=b"wrong")
    assert not client.log_in()
    assert client.status == 0x0F
    assert client.desk.bmc.logins.failed == 1


def test_a_stray_message_of_a_login_ends_no_session() -> None:
    client = logged_in()
    managed_id = next(iter(client.desk.sessions.by_id)).to_bytes(4, "little")
    for stray in (b"\x00\x0f\x00\x00" + managed_id, b"\x00\x00\x00\x00" + managed_id + bytes(32)):
        assert client.send(write_packet(Packet(RAKP3, 0, 0, stray))) is None
    assert client.step(RAKP1, bytes(4) + managed_id + bytes(20))[1] == 0x02
    assert client.ask(CHASSIS, 0x01) == ON


def test_a_role_above_the_users_is_refused() -> None:
    client = PlainClient(new_desk())
    client.desk.bmc.users = {ADMIN: BmcUser(b"secret", 3)}
    assert not client.log_in()
    assert client.status == 0x0A


def test_a_session_begins_as_user_and_rises_on_request() -> None:
    client = logged_in()
    assert client.ask(CHASSIS, 0x02, b"\x00") == b"\xd4"
    assert client.ask(APP, 0x3B, b"\x05") == b"\xcc"
    assert client.ask(APP, 0x3B, b"\x04") == b"\x00\x04"
    assert client.ask(APP, 0x3B, b"\x00") == b"\x00\x04"
    assert client.ask(CHASSIS, 0x02, b"\x00") == b"\x00"


def test_commands_before_a_login() -> None:
    client = PlainClient(new_desk())
    for message, code in [(request(APP, 0x37), 0), (STATUS, 0xD4), (request(APP, 0x3C, bytes(4)), 0xD4)]:
        reply = client.send(IPMI_CLASS + b"\x00" + bytes(8) + bytes([len(message)]) + message)
        assert reply is not None
        assert reply[20] == code


@pytest.mark.parametrize(
    ("function", "command", "data", "answer"),
    [
        (APP, 0x07, b"", b"\x00\x00\x00"),
        (APP, 0x99, b"", b"\xc1"),
        (0x2C, 0x02, b"\xdc\x02\x00\x00", b"\xcc"),
        (0x2C, 0x02, b"\x00\x01\x00\x00", b"\xc1"),
        (0x2C, 0x02, b"", b"\xc7"),
        (CHASSIS, 0x02, b"", b"\xd4"),
        (APP, 0x54, b"\x05\x00\x80", b"\xcc"),
    ],
)
def test_completion_codes(function: int, command: int, data: bytes, answer: bytes) -> None:
    assert logged_in().ask(function, command, data) == answer


def test_a_bmc_that_talks_nonsense_lets_one_log_in() -> None:
    client = PlainClient(new_desk())
    client.desk.bmc.faults = BmcFaults(garbage=True)
    assert client.log_in()
    assert client.ask(CHASSIS, 0x01) == b"\x00\xa5\x5a"


def test_a_ping_is_answered() -> None:
    client = PlainClient(new_desk())
    assert client.send(bytes.fromhex("0600ff06000011be80070000")) == bytes.fromhex(
        "0600ff06000011be40070010000011be000000008100000000000000"
    )


@given(st.binary(max_size=70))
def test_encrypted_payload_can_be_decrypted(payload: bytes) -> None:
    key = random.Random(len(payload)).randbytes(16)
    assert decrypted(key, encrypted(key, payload)) == payload
    with pytest.raises(Malformed):
        decrypted(key, encrypted(key, payload)[:-1])
