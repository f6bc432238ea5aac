"""The IPMI requests that offpeak sends to a BMC, and the parsers of their answers.

Numbers are from the IPMI v2.0 specification, revision 1.1, appendix G; layouts from the section named beside each. A
GUID is 16 bytes. BMCs send these bytes in one of three orders and do not say in which.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from offpeak.door.door import Guard
from offpeak.errors import BadAnswer, NotSupported
from offpeak.model.orders import NodeOrder

EPOCH_100NS = 0x01B21DD213814000
"""1970 in the time stamps of version 1: units of 100 ns since 1582-10-15 (RFC 4122, section 4.1.4)."""
YEAR_2100_100NS = EPOCH_100NS + 4_102_444_800 * 10**7
VERSIONS = range(1, 6)

RESTORE_POLICIES = ("always-off", "previous", "always-on", "unknown")
"""What a chassis does when mains power returns (section 28.2, bits 6:5 of the current power state)."""

SYSTEM_NAME, NAME_BLOCK, LONGEST_NAME = 0x02, 16, 253
NAME_ENCODINGS = {0: "latin-1", 1: "utf-8"}


def format_guid(answer: bytes) -> str | None:
    """Return the 16 bytes of an answer as `ipmitool mc guid` writes them, in lower case; None if all are 00 or ff.

    The byte order is guessed as ipmitool's manual page describes. Candidates are SMBIOS (DMTF DSP0134, section 7.2.1:
    three fields swapped), IPMI (v2.0, section 20.8: reversed) and RFC 4122 (unchanged). The first that gives a version
    1 GUID with a plausible time stamp is taken, else the first that gives any version, else the bytes unchanged. Time
    stamps are plausible up to 2100, not up to the current year: the identity of a node must not change at New Year.
    """
    if answer in (bytes(16), b"\xff" * 16):
        return None
    likely = [guid for guid in _guid_readings(answer) if _guid_version(guid) in VERSIONS]
    dated = [guid for guid in likely if _guid_version(guid) == 1 and EPOCH_100NS <= guid.time < YEAR_2100_100NS]
    return str(next(iter((*dated, *likely, UUID(bytes=answer)))))


def _guid_readings(answer: bytes) -> Iterator[UUID]:
    yield UUID(bytes_le=answer)
    yield UUID(bytes=answer[::-1])
    yield UUID(bytes=answer)


def _guid_version(guid: UUID) -> int:
    # UUID.version does not work here: it is None unless the variant is RFC 4122.
    return guid.time_hi_version >> 12


@dataclass(frozen=True)
class IpmiRequest:
    """Network function, command and data. `name` is used in messages."""

    name: str
    netfn: int
    command: int
    data: bytes = b""


SendRequest = Callable[[IpmiRequest], Awaitable[bytes]]
"""Returns the data after a completion code of 0. Raises DeviceError for other codes and if no answer comes."""

SendCommand = Callable[[IpmiRequest, Guard], Awaitable[bytes]]
"""Like SendRequest, without a new login and with a guard that is called directly before the request is sent."""

CHASSIS_STATUS = IpmiRequest("Get Chassis Status", 0x00, 0x01)
DEVICE_GUID = IpmiRequest("Get Device GUID", 0x06, 0x08)
SYSTEM_GUID = IpmiRequest("Get System GUID", 0x06, 0x37)
CONTROL = {
    # Section 28.3. The soft shutdown emulates a fatal over-temperature through ACPI.
    NodeOrder.HARD_OFF: IpmiRequest("Chassis Control: power down", 0x00, 0x02, b"\x00"),
    NodeOrder.ON: IpmiRequest("Chassis Control: power up", 0x00, 0x02, b"\x01"),
    NodeOrder.SOFT_OFF: IpmiRequest("Chassis Control: soft shutdown", 0x00, 0x02, b"\x05"),
}


async def read_is_on(ask: SendRequest) -> bool:
    """Return whether the chassis has power (section 28.2, bit 0)."""
    return bool(await _read_power_state(ask) & 1)


async def read_restore_policy(ask: SendRequest) -> str:
    """Return one of RESTORE_POLICIES: anything but "always-off" can switch nodes on after a power failure."""
    return RESTORE_POLICIES[await _read_power_state(ask) >> 5 & 3]


async def read_system_guid(ask: SendRequest) -> str | None:
    """Return the GUID of the system, else that of the BMC, as `format_guid` writes it; None if there is neither."""
    for request in (SYSTEM_GUID, DEVICE_GUID):
        try:
            answer = await ask(request)
        except NotSupported:
            continue
        if len(answer) != 16:
            raise BadAnswer(f"{request.name}: {len(answer)} bytes instead of 16", hint="update the BMC's firmware")
        if (text := format_guid(answer)) is not None:
            return text
    return None


async def read_system_name(ask: SendRequest) -> str:
    """Return the host name that the system's software gave to the BMC (section 22.14a), "" for none.

    Raises NotSupported where a BMC has no such parameter.
    """
    name, length, encoding, block = b"", 1, "latin-1", 0
    while len(name) < length:
        answer = (await ask(IpmiRequest("Get System Info", 0x06, 0x59, bytes([0, SYSTEM_NAME, block, 0]))))[2:]
        if block == 0:
            if len(answer) < 2 or answer[0] & 0xF not in NAME_ENCODINGS:
                return ""
            encoding, length, answer = NAME_ENCODINGS[answer[0] & 0xF], min(answer[1], LONGEST_NAME), answer[2:]
        if not answer:
            break
        name, block = name + answer[:NAME_BLOCK], block + 1
    return name[:length].rstrip(b"\0 ").decode(encoding, errors="replace")


async def _read_power_state(ask: SendRequest) -> int:
    answer = await ask(CHASSIS_STATUS)
    if len(answer) < 3:
        what = f"{CHASSIS_STATUS.name}: {len(answer)} bytes instead of 3"
        raise BadAnswer(what, hint="update the BMC's firmware")
    return answer[0]
