"""One BMC: its address and login from the inventory, its presence check, and its errors.

The presence check needs no login, so a dead BMC costs no login attempt and delays no other BMC. Only the text and the
completion code distinguish the errors of IPMI programs.
"""

import asyncio
import ipaddress
import socket
from dataclasses import dataclass

from offpeak.errors import AccessRefused, BadAnswer, BadInput, BadInventory, DeviceError, NoAnswer, NotSupported
from offpeak.machines.credentials import Credential, Secret
from offpeak.machines.inventory import InventoryNode
from offpeak.text import did_you_mean

IPMI_PORT = 623
PRIVILEGES = {"user": 2, "operator": 3, "admin": 4}
"""Privilege levels by number (IPMI v2.0, table 22-19). Switching a node needs at least operator."""

PASSWORD_PHRASES = (
    *("incorrect password", "password invalid", "hmac is invalid", "password verification"),
    *("unauthorized name", "username invalid", "invalid user name", "null user disabled"),
    *("integrity check value", "integrity code", "k_g invalid", "password is longer", "password length"),
)
PRIVILEGE_PHRASES = ("privilege", "privelege", "permission denied", "unauthorized role", "invalid role")
CIPHER_PHRASES = ("cipher suite", "authentication algorithm", "integrity algorithm", "confidentiality algorithm")
SESSION_PHRASES = ("insufficient resources", "no available login slots", "no slot available", "bmc busy", "node busy")
SILENCE_PHRASES = (
    *("timeout", "timed out", "no longer connected", "failed to initialize", "unable to establish"),
    "unable to send raw command",
)
HOST_NAME_PHRASES = ("address lookup", "invalid hostname", "unable to transmit", "name or service")
UNSUPPORTED_PHRASES = ("ipmi 2.0 unavailable", "unsupported", "not supported", "invalid command")

NOT_SUPPORTED_CODES = {0xC1: "invalid command", 0xC2: "invalid command for this LUN"}
NO_PRIVILEGE_CODES = {0xD4: "insufficient privilege level"}
OTHER_CODES = {
    0xC0: "node busy",
    0xC3: "timeout while processing the command",
    0xC4: "out of space",
    0xC7: "request data length invalid",
    0xCC: "invalid data field in request",
    0xCE: "command response could not be provided",
    0xD0: "SDR repository in update mode",
    0xD1: "device in firmware update mode",
    0xD2: "BMC initialization in progress",
    0xD3: "destination unavailable",
    0xD5: "not supported in the present state",
    0xD6: "sub-function is disabled",
    0xFF: "unspecified error",
}
"""Completion codes (IPMI v2.0, table 5-2)."""

PRESENCE_REQUEST = bytes.fromhex("0600ff07 00 00000000 00000000 09 20 18 c8 81 00 38 8e 04 b5")
"""Get Channel Authentication Capabilities, which every BMC answers outside a session (IPMI v2.0, section 22.13).

RMCP header, no authentication, sequence and session 0, 9 bytes: to 20h, App; from 81h: 38h for this channel and admin.
"""
PRESENCE_DELAYS_S = (0.0, 0.3, 0.7, 1.0, 1.0, 2.0)
"""Wait times before each request: UDP loses packets, and busy BMCs drop them."""


@dataclass(frozen=True)
class BmcAddress:
    """A BMC by host name or address and UDP port, with the login and the settings of a session."""

    node: str
    host: str
    credential: Credential
    port: int = IPMI_PORT
    cipher_suite: int = 17
    privilege: str = "operator"
    workarounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.node} (BMC {self.host})"


def address_of(machine: InventoryNode) -> BmcAddress:
    """Return the address of the machine's BMC. Raises BadInventory if address or login are missing or the privilege is
    unknown.
    """
    hardware = machine.hardware
    if machine.bmc is None:
        raise BadInventory(f"{machine.node}: has no address of a BMC", hint='add bmc = "..." to its [[machines]]')
    if hardware.credential is None:
        where = f"[hardware.{hardware.name}]"
        raise BadInventory(f"{machine.node}: no login for its BMC", hint=f"add credential = ... below {where}")
    if hardware.privilege not in PRIVILEGES:
        what = f"hardware.{hardware.name}.privilege: {hardware.privilege!r} is not a privilege level"
        raise BadInventory(what, hint=did_you_mean(hardware.privilege, PRIVILEGES))
    return BmcAddress(
        node=machine.node,
        host=machine.bmc,
        credential=hardware.credential,
        port=hardware.port or IPMI_PORT,
        cipher_suite=hardware.cipher_suite,
        privilege=hardware.privilege,
        workarounds=hardware.workarounds,
    )


def read_password(bmc: BmcAddress) -> Secret:
    """Return the password. Raises AccessRefused if its file cannot be used, which stops this login only."""
    try:
        return bmc.credential.password()
    except BadInput as problem:
        raise AccessRefused(f"{bmc}: no login: {problem}", hint=problem.hint) from None


class BmcRefusal(BadAnswer):
    """The BMC answered with this completion code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, hint="look at the BMC's event log")
        self.code = code


def error_of_text(bmc: BmcAddress, message: str) -> DeviceError:
    """Return the error for a message of pyghmi, ipmitool or ipmipower about a login or request. Raises BadAnswer if
    unknown.
    """
    folded, one_line = message.casefold(), " ".join(message.split()) or "no reason given"
    for terms, make in _MEANINGS:
        if any(term in folded for term in terms):
            return make(bmc, one_line)
    return BadAnswer(f"{bmc}: {one_line}", hint=f"try: ipmitool -I lanplus -H {bmc.host} -v chassis status")


def error_of_code(bmc: BmcAddress, request: str, code: int) -> DeviceError:
    """Return the error for a completion code other than 0."""
    if code in NO_PRIVILEGE_CODES:
        return _privilege_error(bmc, f"{request}: {NO_PRIVILEGE_CODES[code]} ({code:02X}h)")
    if code in NOT_SUPPORTED_CODES:
        return NotSupported(f"{bmc}: {request}: {NOT_SUPPORTED_CODES[code]} ({code:02X}h)")
    meaning = OTHER_CODES.get(code, "code of the manufacturer" if code < 0x80 else "unknown")
    return BmcRefusal(f"{bmc}: {request}: {meaning} ({code:02X}h)", code)


def timeout_error(bmc: BmcAddress, timeout_s: float) -> NoAnswer:
    """Return the error for a BMC that did not answer in time."""
    hint = f"is it up? try: ping {bmc.host}; does it allow IPMI over LAN, UDP port {bmc.port}?"
    return NoAnswer(f"{bmc}: no answer within {timeout_s:g} s", hint=hint)


def login_timeout_error(bmc: BmcAddress, timeout_s: float) -> NoAnswer:
    """Return the error for a BMC that is present but completed no login in time."""
    hint = "it may be restarting; if this persists, try cipher_suite = 3: some BMCs do not answer when 17 is proposed"
    return NoAnswer(f"{bmc}: is present, but completed no login within {timeout_s:g} s", hint=hint)


def _login_refused_error(bmc: BmcAddress, message: str) -> DeviceError:
    login = bmc.credential
    hint = f"fix {login.password_file} or user below [credentials.{login.name}]; offpeak does not try this login again"
    return AccessRefused(f"{bmc}: login {login.name} refused: {message}", hint=hint)


def _privilege_error(bmc: BmcAddress, message: str) -> DeviceError:
    hint = f"allow {bmc.privilege} to user {bmc.credential.user} on the BMC's LAN channel, or set another privilege"
    return AccessRefused(f"{bmc}: {message}", hint=hint)


def _cipher_error(bmc: BmcAddress, message: str) -> DeviceError:
    hint = f"set cipher_suite: {bmc.cipher_suite} is not accepted; try 17, then 3"
    return NotSupported(f"{bmc}: {message}", hint=hint)


def _session_error(bmc: BmcAddress, message: str) -> DeviceError:
    return BadAnswer(f"{bmc}: {message}", hint="wait some minutes until sessions expire, or restart the BMC")


def _silence_error(bmc: BmcAddress, message: str) -> DeviceError:
    return NoAnswer(f"{bmc}: {message}", hint=f"is it up? try: ping {bmc.host}")


def unknown_host_error(bmc: BmcAddress, message: str) -> NoAnswer:
    """Return the error for a host name that cannot be resolved."""
    return NoAnswer(f"{bmc}: {message}", hint=f"try: getent hosts {bmc.host}; or use the BMC's IP address")


def _unsupported_error(bmc: BmcAddress, message: str) -> DeviceError:
    return NotSupported(f"{bmc}: {message}", hint="update the BMC's firmware")


# The order matters: "password verification timeout" is a refused login, "privilege level cannot be obtained" is not.
_MEANINGS = (
    (PASSWORD_PHRASES, _login_refused_error),
    (PRIVILEGE_PHRASES, _privilege_error),
    (SESSION_PHRASES, _session_error),
    (HOST_NAME_PHRASES, unknown_host_error),
    (UNSUPPORTED_PHRASES, _unsupported_error),
    (CIPHER_PHRASES, _cipher_error),
    (SILENCE_PHRASES, _silence_error),
)


async def find_bmc(bmc: BmcAddress, timeout_s: float, *, at_once: asyncio.Semaphore) -> str:
    """Return the BMC's numeric address once it has answered. Raises NoAnswer if it is silent or its name is unknown.

    `at_once` bounds how many searches run at the same time, and with it the number of open files.
    """
    try:
        async with at_once, asyncio.timeout(timeout_s):
            address = await _resolve_address(bmc)
            loop = asyncio.get_running_loop()
            received: asyncio.Future[None] = loop.create_future()
            try:
                transport, _ = await loop.create_datagram_endpoint(
                    lambda: _AnswerListener(received), remote_addr=(address, bmc.port)
                )
            except OSError as problem:
                raise NoAnswer(
                    f"{bmc}: {problem.strerror}", hint=f"is there a route? try: ip route get {address}"
                ) from None
            try:
                for wait_s in PRESENCE_DELAYS_S:
                    await asyncio.wait({received}, timeout=wait_s)
                    if received.done():
                        break
                    transport.sendto(PRESENCE_REQUEST)
                await received
            finally:
                transport.close()
    except TimeoutError:
        raise timeout_error(bmc, timeout_s) from None
    return address


async def _resolve_address(bmc: BmcAddress) -> str:
    try:
        return str(ipaddress.ip_address(bmc.host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(bmc.host, bmc.port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as problem:
        raise unknown_host_error(bmc, f"its name cannot be resolved: {getattr(problem, 'strerror', problem)}") from None
    return str(found[0][4][0])


class _AnswerListener(asyncio.DatagramProtocol):
    """Notes that a packet arrived. A closed port counts as silence: the BMC may be starting."""

    def __init__(self, received: asyncio.Future[None]) -> None:
        self._received = received

    def datagram_received(self, *_: object) -> None:
        if not self._received.done():
            self._received.set_result(None)
