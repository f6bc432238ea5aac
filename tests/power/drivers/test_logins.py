"""A password that was refused once is not tried again: neither there, nor, if nobody has accepted it, elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from offpeak.errors import AccessRefused, NoAnswer
from offpeak.machines.credentials import Credential, Secret
from offpeak.power.drivers.logins import Logins

LOGIN = Credential("bmc", "admin")


class Devices:
    """Devices that take `right`, never answer, or refuse; they count who was tried."""

    def __init__(self, right: dict[str, Secret], silent: frozenset[str] = frozenset()) -> None:
        self.right, self.silent, self.tried = right, silent, list[str]()

    def attempt(self, host: str, secret: Secret) -> Callable[[], Awaitable[str]]:
        async def try_it() -> str:
            self.tried.append(host)
            if host in self.silent:
                await asyncio.sleep(5)
                raise NoAnswer(host)
            await asyncio.sleep(0.01)
            if self.right[host] != secret:
                raise AccessRefused(host)
            return host

        return try_it


async def _all(devices: Devices, hosts: list[str], secret: Secret, logins: Logins) -> list[object]:
    tries = (logins.log_in(LOGIN, host, devices.attempt(host, secret), secret=secret) for host in hosts)
    return await asyncio.gather(*tries, return_exceptions=True)


def test_a_wrong_password_goes_to_one_device_only() -> None:
    hosts = [f"b{number}" for number in range(20)]
    devices = Devices(dict.fromkeys(hosts, Secret(b"right")))
    logins = Logins()
    results = asyncio.run(_all(devices, hosts, Secret(b"wrong"), logins))
    assert all(isinstance(result, AccessRefused) for result in results)
    assert devices.tried == ["b0"]
    assert asyncio.run(_all(devices, hosts, Secret(b"right"), logins)) == hosts


def test_one_device_with_another_password_does_not_hold_the_others() -> None:
    devices = Devices({"a": Secret(b"x"), "b": Secret(b"y"), "c": Secret(b"x")})
    logins = Logins()
    for _ in range(3):
        results = asyncio.run(_all(devices, ["a", "b", "c"], Secret(b"x"), logins))
        assert [type(result) for result in results] == [str, AccessRefused, str]
    assert devices.tried.count("b") == 1


def test_a_silent_device_holds_the_first_logins_for_half_a_second_only() -> None:
    hosts = ["dead", *(f"b{number}" for number in range(10))]
    devices = Devices(dict.fromkeys(hosts, Secret(b"x")), silent=frozenset(["dead"]))

    async def live() -> list[object]:
        logins = Logins()
        dead = asyncio.ensure_future(
            logins.log_in(LOGIN, "dead", devices.attempt("dead", Secret(b"x")), secret=Secret(b"x"))
        )
        await asyncio.sleep(0)
        others = asyncio.ensure_future(_all(devices, hosts[1:], Secret(b"x"), logins))
        first, _ = await asyncio.wait([others, dead], return_when=asyncio.FIRST_COMPLETED)
        assert others in first
        results = await others
        with pytest.raises(NoAnswer):
            await dead
        return results

    assert asyncio.run(live()) == hosts[1:]


def test_cancelled_login_leaves_no_attempt() -> None:
    devices = Devices({"dead": Secret(b"x")}, silent=frozenset(["dead"]))

    async def cancelled() -> int:
        login = Logins().log_in(LOGIN, "dead", devices.attempt("dead", Secret(b"x")), secret=Secret(b"x"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(login, 0.05)
        return len(asyncio.all_tasks())

    assert asyncio.run(cancelled()) == 1
