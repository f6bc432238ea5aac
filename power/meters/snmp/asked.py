"""An OID as pysnmp's commands want it, without the search for a MIB that knows it."""

from functools import lru_cache
from typing import Any

from pysnmp.hlapi.v3arch.asyncio import ObjectIdentity, ObjectType
from pysnmp.proto.rfc1902 import ObjectIdentifier
from pysnmp.proto.rfc1905 import unSpecified


class Asked(ObjectType):  # type: ignore[misc]
    """An OID in numbers. pysnmp would load a compiler of MIBs first, for a second an engine, and find nothing to do."""

    def __init__(self, oid: str) -> None:
        super().__init__(ObjectIdentity(oid))
        self._pair = (_numbers(oid), unSpecified)

    def __getitem__(self, index: int) -> Any:
        return self._pair[index]

    def resolve_with_mib(self, *_args: object, **_options: object) -> "Asked":
        """Return it as it is."""
        return self


@lru_cache(maxsize=10_000)
def _numbers(oid: str) -> Any:
    return ObjectIdentifier(oid)
