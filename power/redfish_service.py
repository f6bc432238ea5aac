"""One BMC's Redfish service: JSON asked for and sent over HTTPS, and what is wrong in the words of DeviceErrors.

Requests block, so that each service has a thread of its own: a BMC that hangs holds no other.
"""

import asyncio
import json
import warnings
from base64 import b64encode
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import requests
from urllib3.exceptions import InsecureRequestWarning

from offpeak.door.door import Guard
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported, WrongDevice
from offpeak.machines.credentials import Credential, Secret
from offpeak.machines.inventory import InventoryNode
from offpeak.web_session import WebSession, read_body
from power.drivers.logins import Logins
from power.redfish_json import Resource, message_of

ROOT = "/redfish/v1/"
ENOUGH_BYTES = 4 * 1024 * 1024
ABSENT = (404, 405, 501)


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes


class RedfishService:
    """Sends every request with user and password, which are nowhere kept.

    A request takes at most `timeout_s`, and is broken off then: what a BMC drips holds up nothing that comes after it.
    """

    def __init__(self, machine: InventoryNode, *, logins: Logins, timeout_s: float) -> None:
        self._url = base_url(machine)
        self.who = f"{machine.node}: BMC {self._url.partition('//')[2]}"
        self._kind, self._verify = machine.hardware.name, machine.hardware.verify
        self._credential = _credential(machine)
        self._logins, self._timeout_s = logins, timeout_s
        self._session: WebSession | None = None
        self._thread = ThreadPoolExecutor(1)

    async def get(self, path: str) -> Resource:
        """Return the resource; a DeviceError says what is wrong, NotSupported that there is none."""
        answer = await self._ask("GET", path)
        try:
            resource = json.loads(answer.body)
        except (ValueError, RecursionError):
            resource = None
        if not isinstance(resource, dict):
            raise BadAnswer(f"{self.who}: no JSON object at {path}", hint="is that the address of a Redfish service?")
        return resource

    async def post(self, path: str, body: Resource, guard: Guard) -> None:
        """Send the body; errors as for `get`. `guard` is called directly before it goes out."""
        await self._ask("POST", path, body, guard)

    async def close(self) -> None:
        """Close the connection. The service may be used again."""
        thread, self._thread = self._thread, ThreadPoolExecutor(1)
        session, self._session = self._session, None
        if session is not None:
            session.close()
        thread.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, method: str, path: str, body: Resource | None = None, guard: Guard | None = None) -> _Answer:
        if not path.startswith("/") or path.startswith("//"):
            # Elsewhere is where the password must not go.
            raise BadAnswer(f"{self.who}: leads us elsewhere: {path[:80]!r}", hint="its firmware may need an update")
        secret = self._credential.password()

        async def attempt() -> _Answer:
            answer = await self._exchange(method, path, body, secret, guard)
            if answer.status in (401, 403):
                hint = (
                    f"mend user and password_file below [credentials.{self._credential.name}]; it may need more rights"
                )
                raise AccessRefused(f"{self.who}: refuses {method} {path} (HTTP {answer.status})", hint=hint)
            return answer

        answer = await self._logins.log_in(self._credential, self._url, attempt, secret=secret)
        if not 200 <= answer.status < 300:
            raise self._refusal(method, path, answer)
        return answer

    async def _exchange(
        self, method: str, path: str, body: Resource | None, secret: Secret, guard: Guard | None
    ) -> _Answer:
        exchange = self._thread.submit(self._blocking, method, path, body, secret, guard)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._within_task(exchange)
        except (TimeoutError, requests.Timeout):
            hint = f"is it up? try: curl -k {self._url}{ROOT}"
            raise NoAnswer(f"{self.who}: no answer within {self._timeout_s:g} s", hint=hint) from None
        except requests.RequestException as problem:
            raise self._trouble(problem) from None

    async def _within_task(self, exchange: "Future[_Answer]") -> _Answer:
        try:
            return await asyncio.wrap_future(exchange)
        except asyncio.CancelledError:
            # One that has not begun yet is cancelled by that.
            session = self._session
            if session is not None and not exchange.cancelled():
                self._session = None
                session.break_off()
                session.close()
            raise

    def _blocking(self, method: str, path: str, body: Resource | None, secret: Secret, guard: Guard | None) -> _Answer:
        session = self._session = self._session or self._new_session()
        if guard is not None:
            guard()
        with session.request(
            method,
            self._url + path,
            json=body,
            headers={"Authorization": _basic(self._credential.user, secret)},
            timeout=self._timeout_s,
            allow_redirects=False,
            stream=True,
        ) as response:
            content = read_body(response, most_bytes=ENOUGH_BYTES)
            if content is None:
                raise requests.RequestException("endless")
            return _Answer(response.status_code, content)

    def _new_session(self) -> WebSession:
        if isinstance(self._verify, Path) and not self._verify.exists():
            hint = f"mend verify below [hardware.{self._kind}]"
            raise BadInventory(f"{self._verify}: no such file of certificates", hint=hint)
        if self._verify is False:
            warnings.simplefilter("ignore", InsecureRequestWarning)
        session = WebSession()
        # Neither ~/.netrc nor a proxy of the environment may come between.
        session.trust_env = False
        session.verify = str(self._verify) if isinstance(self._verify, Path) else self._verify
        return session

    def _trouble(self, problem: requests.RequestException) -> DeviceError:
        if "CERTIFICATE_VERIFY_FAILED" in str(problem):
            hint = (
                f'below [hardware.{self._kind}] set verify = "/path/to/ca.pem", '
                "or verify = false where nobody else is on that network"
            )
            return WrongDevice(f"{self.who}: its certificate is not trusted", hint=hint)
        if isinstance(problem, requests.exceptions.SSLError):
            return BadAnswer(f"{self.who}: TLS does not come about", hint=f"try: curl -vk {self._url}{ROOT}")
        if isinstance(problem, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            return NoAnswer(f"{self.who}: cannot be reached", hint=f"try: curl -k {self._url}{ROOT}")
        return BadAnswer(f"{self.who}: {type(problem).__name__}", hint=f"try: curl -k {self._url}{ROOT}")

    def _refusal(self, method: str, path: str, answer: _Answer) -> DeviceError:
        said = message_of(answer.body)
        kind = NotSupported if answer.status in ABSENT else BadAnswer
        message = f"{self.who}: HTTP {answer.status} to {method} {path}" + (f": {said}" if said else "")
        return kind(message, hint=f"its own log may say more; try: curl -k {self._url}{ROOT}")


def base_url(machine: InventoryNode) -> str:
    """Return "https://10.1.0.1" for the machine's BMC; an address with a scheme ("http://...") is taken as it is."""
    bmc, port = machine.bmc, machine.hardware.port
    if bmc is None:
        raise BadInventory(f"{machine.node}: has no bmc", hint="add bmc = ... to its [[machines]]")
    if "://" in bmc:
        return bmc.rstrip("/")
    host = f"[{bmc}]" if bmc.count(":") > 1 and not bmc.startswith("[") else bmc
    return f"https://{host}" + (f":{port}" if port else "")


def _basic(user: str, secret: Secret) -> str:
    return "Basic " + b64encode(user.encode() + b":" + secret.value).decode()


def _credential(machine: InventoryNode) -> Credential:
    if machine.hardware.credential is None:
        kind = machine.hardware.name
        hint = f"set credential = ... below [hardware.{kind}]"
        raise BadInventory(f"hardware.{kind}: has no credential for its BMCs", hint=hint)
    return machine.hardware.credential
