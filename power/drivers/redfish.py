"""Redfish: the service of one BMC, its ComputerSystem, and the driver that switches it.

Redfish services return nested JSON objects; any part of an answer may be missing or have another type. Errors of the
service become DeviceErrors. Requests block, so each service has its own thread, and a BMC that hangs delays no other
BMC.
"""

import asyncio
import json
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import InsecureRequestWarning

from offpeak.door.door import Confirm, Guard
from offpeak.errors import AccessRefused, BadAnswer, BadInventory, DeviceError, NoAnswer, NotSupported, WrongDevice
from offpeak.machines.credentials import Credential, Secret
from offpeak.machines.inventory import InventoryNode
from offpeak.model.orders import NodeOrder, PowerState
from offpeak.power.drivers.logins import Logins
from offpeak.power.drivers.port import PowerObservation, confirm_at_once
from offpeak.text import printable
from offpeak.web_session import WebSession, read_body

Resource = dict[str, Any]

ROOT = "/redfish/v1/"
MAX_BODY_BYTES = 4 * 1024 * 1024
ABSENT_STATUSES = (404, 405, 501)

LOGOUT_S = 2.0
PRECONDITION_FAILED = 412

RESETS = {NodeOrder.ON: "On", NodeOrder.SOFT_OFF: "GracefulShutdown", NodeOrder.HARD_OFF: "ForceOff"}
RESET_ACTION = ("Actions", "#ComputerSystem.Reset")

STATES = {"On": PowerState.ON, "Off": PowerState.OFF}
GOALS = {NodeOrder.ON: PowerState.ON, NodeOrder.SOFT_OFF: PowerState.OFF, NodeOrder.HARD_OFF: PowerState.OFF}


def get_nested(value: Any, *keys: str) -> Any:
    """Return the value below these keys of nested JSON objects, None if there is none."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def parse_links(value: Any) -> tuple[str, ...]:
    """Return the paths of a list of links to resources, () if `value` is no such list."""
    found = (get_nested(link, "@odata.id") for link in value) if isinstance(value, list) else ()
    return tuple(link for link in found if isinstance(link, str))


def parse_error_message(body: bytes) -> str:
    """Return the message in the body of an error, by Redfish or by RFC 7807; "" if it has none."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reply = get_nested(problem, "error")
    details = get_nested(reply, "@Message.ExtendedInfo")
    message = get_nested(details[0], "Message") if isinstance(details, list) and details else None
    return printable(str(message or get_nested(reply, "message") or get_nested(problem, "detail") or ""))


@dataclass(frozen=True)
class WebResponse:
    """The status, the body and the headers of an answer; the names of headers are found in any case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class DeviceWebApi:
    """Exchanges JSON with one device or service, one request at a time, and stores no secret.

    A request is aborted after `timeout_s`, so a BMC that sends its answer byte by byte does not delay the next request.
    `table` is that of the inventory that sets `verify`; `page` can be read without a login.
    """

    def __init__(
        self,
        url: str,
        who: str,
        *,
        table: str,
        verify: bool | Path,
        timeout_s: float,
        page: str,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.url, self.who, self._timeout_s, self._most_bytes = url, who, timeout_s, most_bytes
        self._table, self._verify, self._page_url = table, verify, url + page
        self._session: WebSession | None = None
        self._thread = ThreadPoolExecutor(1)

    async def exchange(
        self, method: str, path: str, body: Resource | None, headers: Mapping[str, str], guard: Guard | None = None
    ) -> WebResponse:
        """Return the answer. Raises DeviceErrors. `guard` is called directly before the request goes out."""
        exchange = self._thread.submit(self._blocking, method, path, body, headers, guard)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._within_task(exchange)
        except (TimeoutError, requests.Timeout):
            hint = f"is it up? try: curl -k {self._page_url}"
            raise NoAnswer(f"{self.who}: no answer within {self._timeout_s:g} s", hint=hint) from None
        except requests.RequestException as problem:
            raise self._device_error(problem) from None

    async def close(self) -> None:
        """Close the connection. The device may be used again."""
        thread, self._thread = self._thread, ThreadPoolExecutor(1)
        session, self._session = self._session, None
        if session is not None:
            session.close()
        thread.shutdown(wait=False, cancel_futures=True)

    def refusal(self, method: str, path: str, answer: WebResponse) -> DeviceError:
        """Return the error of an answer without success."""
        reason = parse_error_message(answer.body)
        kind = NotSupported if answer.status in ABSENT_STATUSES else BadAnswer
        message = f"{self.who}: HTTP {answer.status} to {method} {path}" + (f": {reason}" if reason else "")
        return kind(message, hint=f"its own log may say more; try: curl -k {self._page_url}")

    async def _within_task(self, exchange: "Future[WebResponse]") -> WebResponse:
        try:
            return await asyncio.wrap_future(exchange)
        except asyncio.CancelledError:
            # This cancels a request that has not started yet.
            session = self._session
            if session is not None and not exchange.cancelled():
                self._session = None
                session.break_off()
                session.close()
            raise

    def _blocking(
        self, method: str, path: str, body: Resource | None, headers: Mapping[str, str], guard: Guard | None
    ) -> WebResponse:
        session = self._session = self._session or self._new_session()
        session.before_sending(guard)
        with session.request(
            method,
            self.url + path,
            json=body,
            headers=headers,
            timeout=self._timeout_s,
            allow_redirects=False,
            stream=True,
        ) as response:
            content = read_body(response, most_bytes=self._most_bytes)
            if content is None:
                raise requests.RequestException("endless")
            return WebResponse(response.status_code, content, response.headers)

    def _new_session(self) -> WebSession:
        if isinstance(self._verify, Path) and not self._verify.exists():
            hint = f"fix verify below [{self._table}]"
            raise BadInventory(f"{self._verify}: no such file of certificates", hint=hint)
        if self._verify is False:
            warnings.simplefilter("ignore", InsecureRequestWarning)
        session = WebSession()
        # Use neither ~/.netrc nor a proxy from the environment.
        session.trust_env = False
        session.verify = str(self._verify) if isinstance(self._verify, Path) else self._verify
        return session

    def _device_error(self, problem: requests.RequestException) -> DeviceError:
        hint = f"try: curl -k {self._page_url}"
        if "CERTIFICATE_VERIFY_FAILED" in str(problem):
            hint = (
                f'below [{self._table}] set verify = "/path/to/ca.pem", '
                "or verify = false if the network is private to the BMCs"
            )
            return WrongDevice(f"{self.who}: its certificate is not trusted", hint=hint)
        if isinstance(problem, requests.exceptions.SSLError):
            return BadAnswer(f"{self.who}: the TLS handshake fails", hint=hint.replace("-k", "-vk"))
        if isinstance(problem, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            return NoAnswer(f"{self.who}: cannot be reached", hint=hint)
        return BadAnswer(f"{self.who}: {type(problem).__name__}", hint=hint)


@dataclass(frozen=True)
class RedfishSession:
    """A login that the service remembers: its token, its path, and the password that opened it."""

    token: Secret
    path: str
    password: Secret

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request of this session."""
        return {"X-Auth-Token": self.token.value.decode("latin-1")}


class RedfishService:
    """Sends each request with user and password, or in a session if the service refuses Basic authentication.

    Only reads are repeated in a new session. A POST or PATCH whose session has ended raises BadAnswer.
    """

    def __init__(self, machine: InventoryNode, *, logins: Logins, timeout_s: float) -> None:
        url = base_url(machine)
        self.who = f"{machine.node}: BMC {url.partition('//')[2]}"
        self._credential, self._logins = credential_of(machine), logins
        table, verify = f"hardware.{machine.hardware.name}", machine.hardware.verify
        self._api = DeviceWebApi(url, self.who, table=table, verify=verify, timeout_s=timeout_s, page=ROOT)
        self._needs_session = False
        self._session: RedfishSession | None = None

    async def read_root(self) -> Resource:
        """Return the root without a login: services show it to anyone, so its answer proves no password."""
        answer = await self._api.exchange("GET", ROOT, None, {})
        if answer.status in (401, 403):
            return await self.get(ROOT)
        return self._parse(ROOT, self._checked("GET", ROOT, answer))

    async def get(self, path: str) -> Resource:
        """Return the resource. Raises NotSupported if it does not exist, and other DeviceErrors."""
        return self._parse(path, self._checked("GET", path, await self._ask("GET", path)))

    async def post(self, path: str, body: Resource, guard: Guard) -> None:
        """Send the body; errors as for `get`. `guard` is called directly before it goes out."""
        self._checked("POST", path, await self._ask("POST", path, body, guard=guard))

    async def patch(self, path: str, body: Resource, guard: Guard) -> None:
        """Change the properties in the body if the resource is as it is read now; errors and guard as for `post`."""
        for is_retry in (False, True):
            read = self._checked("GET", path, await self._ask("GET", path))
            etag = read.headers.get("ETag") or get_nested(self._parse(path, read), "@odata.etag")
            if isinstance(etag, str) and is_retry:
                # Some services give a weak tag and accept only the strong one (RFC 9110, section 13.1.1).
                etag = etag.removeprefix("W/")
            condition = {"If-Match": etag} if isinstance(etag, str) else {}
            answer = await self._ask("PATCH", path, body, headers=condition, guard=guard)
            if answer.status != PRECONDITION_FAILED:
                break
        self._checked("PATCH", path, answer)

    async def close(self) -> None:
        """Log out and close the connection. The service may be used again."""
        session, self._session = self._session, None
        if session is not None and session.path.startswith("/"):
            # A session that remains open ends by the time-out of the service.
            with suppress(DeviceError, TimeoutError):
                async with asyncio.timeout(LOGOUT_S):
                    await self._api.exchange("DELETE", session.path, None, session.headers)
        await self._api.close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: Resource | None = None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        guard: Guard | None = None,
    ) -> WebResponse:
        if not path.startswith("/") or path.startswith("//"):
            # Do not follow redirects: the password must not go to another host.
            raise BadAnswer(f"{self.who}: redirects us to {path[:80]!r}", hint="its firmware may need an update")
        password = self._credential.password()
        user = self._credential.user.encode()
        basic = {"Authorization": "Basic " + b64encode(user + b":" + password.value).decode()}

        async def attempt() -> WebResponse:
            if self._needs_session and (self._session is None or self._session.password != password):
                await self._open_session(password)
            session = self._session
            login = session.headers if session else basic
            answer = await self._api.exchange(method, path, body, {**login, **headers}, guard)
            if answer.status == 401 and session:
                self._session = None
                if method != "GET":
                    message = f"{self.who}: the session ended before {method} {path}, which had no effect"
                    raise BadAnswer(message, hint="try again")
            # A service that offers Basic authentication has refused the password: another attempt may lock accounts.
            if answer.status == 401 and method == "GET" and (session or not _offers_basic(answer)):
                opened = await self._open_session(password)
                answer = await self._api.exchange(method, path, body, opened.headers) if opened else answer
            if answer.status in (401, 403):
                raise self._refused(f"{method} {path} (HTTP {answer.status})")
            return answer

        return await self._logins.log_in(self._credential, self._api.url, attempt, secret=password)

    async def _open_session(self, password: Secret) -> RedfishSession | None:
        """Log in and return the session, None if the service has none. Raises AccessRefused for a wrong password."""
        root = await self._api.exchange("GET", ROOT, None, {})
        path = get_nested(self._parse(ROOT, root), "Links", "Sessions", "@odata.id") if root.status == 200 else None
        if not isinstance(path, str) or not path.startswith("/") or path.startswith("//"):
            return None
        login = {"UserName": self._credential.user, "Password": password.value.decode(errors="replace")}
        answer = await self._api.exchange("POST", path, login, {})
        # iLO answers 400 to a wrong password, and also while all its sessions are in use: "...LimitReached...".
        if answer.status in (400, 401, 403) and b"Limit" not in answer.body:
            raise self._refused(f"a session and Basic authentication (HTTP {answer.status} to POST {path})")
        self._checked("POST", path, answer)
        token = answer.headers.get("X-Auth-Token")
        if not token:
            raise BadAnswer(f"{self.who}: POST {path} gives no X-Auth-Token", hint="its firmware may need an update")
        location = answer.headers.get("Location") or self._parse(path, answer).get("@odata.id")
        own = urlsplit(location).path if isinstance(location, str) else ""
        self._needs_session = True
        self._session = RedfishSession(Secret(token.encode("latin-1")), own, password)
        return self._session

    def _refused(self, what: str) -> AccessRefused:
        hint = f"fix user and password_file below [credentials.{self._credential.name}], or the user's rights"
        return AccessRefused(f"{self.who}: refuses {what}", hint=hint)

    def _checked(self, method: str, path: str, answer: WebResponse) -> WebResponse:
        if not 200 <= answer.status < 300:
            raise self._api.refusal(method, path, answer)
        return answer

    def _parse(self, path: str, answer: WebResponse) -> Resource:
        return parse_resource(answer.body, f"{self.who}: no JSON object at {path}", "a Redfish service")


def _offers_basic(answer: WebResponse) -> bool:
    return "basic" in answer.headers.get("WWW-Authenticate", "").lower()


def parse_resource(body: bytes, problem: str, of: str) -> Resource:
    """Return the JSON object of an answer. Raises BadAnswer with the text of the problem if it is none."""
    try:
        resource = json.loads(body)
    except (ValueError, RecursionError):
        resource = None
    if not isinstance(resource, dict):
        raise BadAnswer(problem, hint=f"is that the address of {of}?")
    return resource


def base_url(machine: InventoryNode) -> str:
    """Return "https://10.1.0.1" for the machine's BMC; an address with a scheme ("http://...") is used unchanged."""
    bmc, port = machine.bmc, machine.hardware.port
    if bmc is None:
        raise BadInventory(f"{machine.node}: has no bmc", hint="add bmc = ... to its [[machines]]")
    if "://" in bmc:
        return bmc.rstrip("/")
    host = f"[{bmc}]" if bmc.count(":") > 1 and not bmc.startswith("[") else bmc
    return f"https://{host}" + (f":{port}" if port else "")


def credential_of(machine: InventoryNode) -> Credential:
    """Return the login to the machine's BMC. Raises BadInventory if there is none."""
    if machine.hardware.credential is None:
        kind = machine.hardware.name
        hint = f"set credential = ... below [hardware.{kind}]"
        raise BadInventory(f"hardware.{kind}: has no credential for its BMCs", hint=hint)
    return machine.hardware.credential


@dataclass(frozen=True)
class ResetAction:
    """The path to which a reset is posted, and the orders that the system supports."""

    path: str
    orders: frozenset[NodeOrder]


async def find_system(service: RedfishService, machine: InventoryNode) -> str:
    """Return the path of the system: the only one, else the one with the enrolled UUID, else the one named like the
    node.
    """
    collection = get_nested(await service.read_root(), "Systems", "@odata.id")
    if not isinstance(collection, str):
        raise BadAnswer(f"{service.who}: lists no systems", hint="is that the address of a Redfish service?")
    paths = parse_links((await service.get(collection)).get("Members"))
    if len(paths) == 1:
        return paths[0]
    ours = [path for path in paths if _is_system_of(await service.get(path), machine)]
    if len(ours) == 1:
        return ours[0]
    if machine.enrolled is not None:
        raise WrongDevice(
            f"{service.who}: none of its {len(paths)} systems is the enrolled one", hint="enrol the node again"
        )
    hint = f"give one of them the HostName {machine.node} in the BMC"
    raise BadAnswer(f"{service.who}: {len(ours)} of its {len(paths)} systems are named {machine.node}", hint=hint)


def system_uuid(system: Resource) -> str | None:
    """Return the system's UUID in lower case, None if it reports none."""
    uuid = system.get("UUID")
    return uuid.lower() if isinstance(uuid, str) and uuid else None


async def read_reset_action(service: RedfishService, system: Resource) -> ResetAction | None:
    """Return the system's reset action, None if it has none. A system that does not list its resets may support all."""
    action = get_nested(system, *RESET_ACTION)
    target = get_nested(action, "target")
    if not isinstance(target, str):
        return None
    allowed = get_nested(action, "ResetType@Redfish.AllowableValues")
    info = get_nested(action, "@Redfish.ActionInfo")
    if allowed is None and isinstance(info, str):
        allowed = _allowed_resets(await service.get(info))
    if not isinstance(allowed, list):
        return ResetAction(target, frozenset(RESETS))
    return ResetAction(target, frozenset(order for order, reset in RESETS.items() if reset in allowed))


def _is_system_of(system: Resource, machine: InventoryNode) -> bool:
    if machine.enrolled is not None:
        return system_uuid(system) == machine.enrolled.identity.lower()
    return machine.node in (system.get("HostName"), system.get("Name"), system.get("Id"))


def _allowed_resets(info: Resource) -> Any:
    parameters = info.get("Parameters")
    rows = parameters if isinstance(parameters, list) else []
    found = (get_nested(row, "AllowableValues") for row in rows if get_nested(row, "Name") == "ResetType")
    return next(found, None)


class RedfishDriver:
    """Reads and sets one node's power. `orders` holds all orders of Redfish until the system is read, then those it
    supports.

    Each request takes at most `timeout_s`. The first call makes up to five requests, later calls one or two.
    """

    name = "redfish"

    def __init__(
        self, machine: InventoryNode, *, logins: Logins, timeout_s: float = 10.0, now: Callable[[], float] = time.time
    ) -> None:
        self._machine = machine
        self._service = RedfishService(machine, logins=logins, timeout_s=timeout_s)
        self._now = now
        self._path: str | None = None
        self._reset: ResetAction | None = None
        self.orders = frozenset(RESETS)

    async def query(self) -> PowerObservation:
        """Return on or off, or UNKNOWN, also while the node powers on or off."""
        try:
            return self._observed(await self._system())
        except DeviceError as error:
            return PowerObservation(PowerState.UNKNOWN, self._now(), error)

    async def send(self, order: NodeOrder, confirm: Confirm = confirm_at_once) -> None:
        """Send the order, unless the node is already in that state. Raises BadAnswer, and sends nothing, if the state
        is unknown.
        """
        observed = self._observed(await self._system())
        if self._reset is None or order not in self.orders:
            offered = ", ".join(sorted(self.orders)) or "nothing"
            raise NotSupported(f"{self._service.who}: does not support {order}", hint=f"it supports: {offered}")
        if observed.error is not None:
            raise observed.error
        if observed.state is not GOALS[order]:
            await self._service.post(self._reset.path, {"ResetType": RESETS[order]}, await confirm())

    async def identity(self) -> str | None:
        """Return the system's UUID."""
        return system_uuid(await self._system())

    async def close(self) -> None:
        """Close the connection."""
        self._path = None
        await self._service.close()

    async def _system(self) -> Resource:
        if self._path is None:
            self._path = await find_system(self._service, self._machine)
        system = await self._service.get(self._path)
        self._reset = await read_reset_action(self._service, system)
        self.orders = self._reset.orders if self._reset else frozenset()
        return system

    def _observed(self, system: Resource) -> PowerObservation:
        reply = system.get("PowerState")
        state = STATES.get(reply, PowerState.UNKNOWN) if isinstance(reply, str) else PowerState.UNKNOWN
        error = None
        if state is PowerState.UNKNOWN:
            message = f"{self._service.who}: its power state is {reply or 'missing'}"
            error = BadAnswer(message, hint="ask again in a minute; if it stays so, look at the BMC's web page")
        return PowerObservation(state, self._now(), error)
