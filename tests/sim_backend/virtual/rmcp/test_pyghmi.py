"""pyghmi's client drives virtual BMCs, in the two shapes in which programs use it."""

import time
from collections.abc import Callable

import pytest
from pyghmi.exceptions import IpmiException
from pyghmi.ipmi.command import Command
from served_room import ServedRoom


def command(room: ServedRoom, number: int, password: bytes = b"secret", **more: object) -> Command:
    # Bytes: with text a second session to the same BMC hangs.
    host = room.plan.bmc_hosts[number - 1]
    return Command(host, b"admin", password, port=room.plan.bmc_port, **more)


def test_power_and_watts(room: ServedRoom) -> None:
    node = command(room, 3)
    assert node.get_power() == {"powerstate": "on"}
    assert node.get_system_power_watts() == 200
    assert node.set_power("off", wait=True) == {"powerstate": "off"}
    assert node.get_system_power_watts() == 15
    node.set_power("on")
    assert node.get_power() == {"powerstate": "on"}
    node.ipmi_session.logout()


def test_a_second_login_after_a_logout(room: ServedRoom) -> None:
    for _ in range(7):
        node = command(room, 4)
        assert node.raw_command(0, 1)["data"][0] & 1
        node.ipmi_session.logout()
    logins = room.do(lambda room: room.bmcs["n04"].logins)
    assert (logins.begun, logins.accepted) == (7, 7)


def test_a_wrong_password(room: ServedRoom) -> None:
    with pytest.raises(IpmiException, match="Incorrect password"):
        command(room, 5, b"wrong")
    assert room.do(lambda room: room.bmcs["n05"].logins.failed) == 1


def test_many_from_one_thread(room: ServedRoom) -> None:
    came: list[object] = []
    nodes = [command(room, number, onlogon=lambda answer, node: came.append((answer, node))) for number in range(6, 17)]
    wait_for(lambda: len(came) == len(nodes))
    answers: list[int] = []
    for node in nodes:
        node.ipmi_session.raw_command(netfn=0, command=1, callback=collect_reply(node, answers))
    wait_for(lambda: len(answers) == len(nodes))
    assert all(answer & 1 for answer in answers)
    for node in nodes:
        node.ipmi_session.logout()


def collect_reply(node: Command, answers: list[int]) -> Callable[[dict[str, bytes]], None]:
    def hear(answer: dict[str, bytes]) -> None:
        answers.append(answer["data"][0])
        session = node.ipmi_session
        session.incommand = False
        while session.evq:
            session.evq.popleft().set()

    return hear


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < give_up
        Command.wait_for_rsp(0.1)
