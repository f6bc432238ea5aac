"""A GUID of 16 bytes as text. BMCs send the bytes in one of three orders and do not say in which."""

from collections.abc import Iterator
from uuid import UUID

EPOCH_100NS = 0x01B21DD213814000
"""1970 in the time stamps of version 1: units of 100 ns since 1582-10-15 (RFC 4122, section 4.1.4)."""
YEAR_2100_100NS = EPOCH_100NS + 4_102_444_800 * 10**7
VERSIONS = range(1, 6)


def guid_text(answer: bytes) -> str | None:
    """Return the 16 bytes of an answer as `ipmitool mc guid` writes them, in lower case; None if all are 00 or ff.

    The order is found as ipmitool's manual page says: the first that makes a version 1 with a time stamp of our days,
    else the first that makes any version, of: SMBIOS (DMTF DSP0134, section 7.2.1: three fields swapped), IPMI (v2.0,
    section 20.8: all backwards), RFC 4122 (as written). Bytes without a version are written as they came. Our days end
    in 2100 instead of this year: who is who must not change at New Year.
    """
    if answer in (bytes(16), b"\xff" * 16):
        return None
    likely = [guid for guid in _readings(answer) if _version(guid) in VERSIONS]
    dated = [guid for guid in likely if _version(guid) == 1 and EPOCH_100NS <= guid.time < YEAR_2100_100NS]
    return str(next(iter((*dated, *likely, UUID(bytes=answer)))))


def _readings(answer: bytes) -> Iterator[UUID]:
    yield UUID(bytes_le=answer)
    yield UUID(bytes=answer[::-1])
    yield UUID(bytes=answer)


def _version(guid: UUID) -> int:
    # Not UUID.version, which is None unless the variant is RFC 4122's too.
    return guid.time_hi_version >> 12
