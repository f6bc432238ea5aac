"""An SNMP agent of a test's own, v1 and v2c, whose rows come, go and restart as the test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pyasn1.codec.ber import decoder, encoder
from pysnmp.proto import api, rfc1905

TOO_BIG, NO_SUCH_NAME, GEN_ERR = 1, 2, 5


@dataclass
class OwnAgent(asyncio.DatagramProtocol):
    """Answers with `values` by OID. Numbers and texts; `broken` OIDs give genErr, more than `limit` at once tooBig."""

    values: dict[str, int | str]
    silent: bool = False
    broken: set[str] = field(default_factory=set)
    limit: int = 100
    communities: set[bytes] = field(default_factory=set)
    gets: int = 0
    walks: int = 0
    requested: list[int] = field(default_factory=list)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if self.silent:
            return
        module = api.PROTOCOL_MODULES[api.decodeMessageVersion(data)]
        message, _ = decoder.decode(data, asn1Spec=module.Message())
        self.communities.add(bytes(module.apiMessage.get_community(message)))
        request = module.apiMessage.get_pdu(message)
        response = module.apiPDU.get_response(request)
        self._answer(module, request, response)
        module.apiMessage.set_pdu(message, response)
        self._transport.sendto(encoder.encode(message), address)

    def _answer(self, module: Any, request: Any, response: Any) -> None:
        oids = [str(oid) for oid, _ in module.apiPDU.get_varbinds(request)]
        status, index, pairs = self._found(module, request, oids)
        if status:
            module.apiPDU.set_error_status(response, status)
            module.apiPDU.set_error_index(response, index)
            pairs = module.apiPDU.get_varbinds(request)
        module.apiPDU.set_varbinds(response, pairs)

    def _found(self, module: Any, request: Any, oids: list[str]) -> tuple[int, int, list[Any]]:
        if not request.isSameTypeWith(module.GetRequestPDU()):
            self.walks += 1
            count = 1 if module is api.PROTOCOL_MODULES[api.SNMP_VERSION_1] else 25
            return self._next(module, oids[0], count)
        self.gets += 1
        self.requested.append(len(oids))
        if len(oids) > self.limit:
            return TOO_BIG, 0, []
        for index, oid in enumerate(oids, 1):
            if oid in self.broken:
                return GEN_ERR, index, []
            if oid not in self.values and module is api.PROTOCOL_MODULES[api.SNMP_VERSION_1]:
                return NO_SUCH_NAME, index, []
        return 0, 0, [(oid, self._value(module, oid)) for oid in oids]

    def _next(self, module: Any, oid: str, count: int) -> tuple[int, int, list[Any]]:
        after = [known for known in sorted(self.values, key=_numbers) if _numbers(known) > _numbers(oid)]
        if not after and count == 1:
            return NO_SUCH_NAME, 1, []
        found = [(known, self._value(module, known)) for known in after[:count]]
        return 0, 0, found or [(oid, rfc1905.endOfMibView)]

    def _value(self, module: Any, oid: str) -> Any:
        if oid not in self.values:
            return rfc1905.noSuchInstance
        value = self.values[oid]
        return module.Integer(value) if isinstance(value, int) else module.OctetString(value)


def _numbers(oid: str) -> tuple[int, ...]:
    return tuple(map(int, oid.split(".")))


@asynccontextmanager
async def own_agent(values: dict[str, int | str]) -> AsyncIterator[tuple[OwnAgent, int]]:
    """Run an agent at 127.0.0.1; gives it and its port."""
    loop = asyncio.get_running_loop()
    transport, agent = await loop.create_datagram_endpoint(lambda: OwnAgent(values), local_addr=("127.0.0.1", 0))
    try:
        yield agent, transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
