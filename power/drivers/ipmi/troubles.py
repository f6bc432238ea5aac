"""Which error it is: IPMI programs have one way to fail, and only words and numbers tell failures apart."""

from offpeak.errors import AccessRefused, BadAnswer, DeviceError, NoAnswer, NotSupported
from power.drivers.ipmi.address import BmcAddress

PASSWORD = (
    "incorrect password",
    "password invalid",
    "hmac is invalid",
    "password verification",
    "unauthorized name",
    "username invalid",
    "invalid user name",
    "null user disabled",
    "integrity check value",
    "integrity code",
    "k_g invalid",
    "password is longer",
    "password length",
)
PRIVILEGE = ("privilege", "privelege", "permission denied", "unauthorized role", "invalid role")
CIPHER = ("cipher suite", "authentication algorithm", "integrity algorithm", "confidentiality algorithm")
SESSIONS = ("insufficient resources", "no available login slots", "no slot available", "bmc busy", "node busy")
SILENCE = ("timeout", "timed out", "no longer connected", "failed to initialize", "unable to establish")
NAME = ("address lookup", "invalid hostname", "unable to transmit", "name or service")
UNABLE = ("ipmi 2.0 unavailable", "unsupported", "not supported", "invalid command")

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


def trouble_in_words(bmc: BmcAddress, said: str) -> DeviceError:
    """Return the error behind what pyghmi, ipmitool or ipmipower said of a login or request; BadAnswer if unknown."""
    folded, one_line = said.casefold(), " ".join(said.split()) or "no reason given"
    for words, make in _MEANINGS:
        if any(word in folded for word in words):
            return make(bmc, one_line)
    return BadAnswer(f"{bmc}: {one_line}", hint=f"try: ipmitool -I lanplus -H {bmc.host} -v chassis status")


def trouble_of_code(bmc: BmcAddress, request: str, code: int) -> DeviceError:
    """Return the error of a completion code other than 0."""
    if code in NO_PRIVILEGE_CODES:
        return _no_privilege(bmc, f"{request}: {NO_PRIVILEGE_CODES[code]} ({code:02X}h)")
    if code in NOT_SUPPORTED_CODES:
        return NotSupported(f"{bmc}: {request}: {NOT_SUPPORTED_CODES[code]} ({code:02X}h)")
    meaning = OTHER_CODES.get(code, "code of the manufacturer" if code < 0x80 else "not known")
    return BadAnswer(f"{bmc}: {request}: {meaning} ({code:02X}h)", hint="look at the BMC's event log")


def silent(bmc: BmcAddress, timeout_s: float) -> NoAnswer:
    """Return the error of a BMC that said nothing in time."""
    hint = f"is it up? try: ping {bmc.host}; does it allow IPMI over LAN, UDP port {bmc.port}?"
    return NoAnswer(f"{bmc}: no answer within {timeout_s:g} s", hint=hint)


def silent_at_login(bmc: BmcAddress, timeout_s: float) -> NoAnswer:
    """Return the error of a BMC that was found, but did not get through a login in time."""
    hint = "it may be restarting; if it is always so, try cipher_suite = 3: some fall silent when they are offered 17"
    return NoAnswer(f"{bmc}: is there, but finished no login within {timeout_s:g} s", hint=hint)


def _refused(bmc: BmcAddress, said: str) -> DeviceError:
    login = bmc.credential
    hint = f"mend {login.password_file} or user below [credentials.{login.name}]; the BMC is not asked again with it"
    return AccessRefused(f"{bmc}: login {login.name} refused: {said}", hint=hint)


def _no_privilege(bmc: BmcAddress, said: str) -> DeviceError:
    hint = f"allow {bmc.privilege} to user {bmc.credential.user} on the BMC's LAN channel, or set another privilege"
    return AccessRefused(f"{bmc}: {said}", hint=hint)


def _no_cipher(bmc: BmcAddress, said: str) -> DeviceError:
    hint = f"set cipher_suite: {bmc.cipher_suite} is not taken; try 17, then 3"
    return NotSupported(f"{bmc}: {said}", hint=hint)


def _no_session(bmc: BmcAddress, said: str) -> DeviceError:
    return BadAnswer(f"{bmc}: {said}", hint="sessions were left open: they end within minutes, or restart the BMC")


def _silence(bmc: BmcAddress, said: str) -> DeviceError:
    return NoAnswer(f"{bmc}: {said}", hint=f"is it up? try: ping {bmc.host}")


def no_such_name(bmc: BmcAddress, said: str) -> NoAnswer:
    """Return the error of a host name that nobody can look up."""
    return NoAnswer(f"{bmc}: {said}", hint=f"try: getent hosts {bmc.host}; or write the BMC's address")


def _unable(bmc: BmcAddress, said: str) -> DeviceError:
    return NotSupported(f"{bmc}: {said}", hint="update the BMC's firmware")


# In this order: "password verification timeout" is a refusal, "privilege level cannot be obtained" is no password's.
_MEANINGS = (
    (PASSWORD, _refused),
    (PRIVILEGE, _no_privilege),
    (SESSIONS, _no_session),
    (NAME, no_such_name),
    (UNABLE, _unable),
    (CIPHER, _no_cipher),
    (SILENCE, _silence),
)
