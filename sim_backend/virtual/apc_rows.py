"""What an APC rack PDU of the second generation says over SNMP: PowerNet-MIB, rPDU2, as far as power goes.

Each object is a function, so that asking for one outlet does not look at all the others.
"""

from collections.abc import Callable, Iterator

from sim_backend.virtual.pdu import VirtualPdu

Oid = tuple[int, ...]
Value = int | str | Oid
Rows = dict[Oid, Callable[[], Value]]

SYSTEM = (1, 3, 6, 1, 2, 1, 1)
APC = (1, 3, 6, 1, 4, 1, 318)
UPTIME = (*SYSTEM, 3, 0)
MASTER_SWITCHED = (*APC, 1, 3, 4, 6)
"""The sysObjectID of such PDUs."""
IDENT = (*APC, 1, 1, 12, 1)
RPDU2 = (*APC, 1, 1, 26)

NOT_AVAILABLE = -1
VOLTAGE_V = 230
TENTH_OF_KWH_J = 360_000
NORMAL_LOAD = 2


def apc_rows(pdu: VirtualPdu) -> Rows:
    """Return all objects of a PDU by their OIDs; uptime in hundredths of a second."""
    return dict((*_system(pdu), *_ident(pdu), *_device(pdu), *_phase(pdu), *_outlets(pdu)))


def _system(pdu: VirtualPdu) -> Iterator[tuple[Oid, Callable[[], Value]]]:
    yield (*SYSTEM, 1, 0), lambda: "APC Web/SNMP Management Card (offpeak's virtual PDU MN:AP8641)"
    yield (*SYSTEM, 2, 0), lambda: MASTER_SWITCHED
    yield UPTIME, lambda: int(pdu.uptime_s * 100) & 0xFFFFFFFF
    yield (*SYSTEM, 5, 0), lambda: pdu.name


def _ident(pdu: VirtualPdu) -> Iterator[tuple[Oid, Callable[[], Value]]]:
    """Yield rPDUIdent of the first generation, which the second still fills: model, serial, outlets, power [W]."""
    yield (*IDENT, 5, 0), lambda: "AP8641"
    yield (*IDENT, 6, 0), lambda: f"VIRTUAL-{pdu.name}"
    yield (*IDENT, 8, 0), lambda: len(pdu.outlets)
    yield (*IDENT, 16, 0), lambda: _measured(pdu, pdu.power_w)


def _device(pdu: VirtualPdu) -> Iterator[tuple[Oid, Callable[[], Value]]]:
    """Yield rPDU2DeviceStatus: index, module, name, load state, power [10 W], energy [0.1 kWh]."""
    entry = (*RPDU2, 4, 3, 1)
    yield (*entry, 1, 1), lambda: 1
    yield (*entry, 2, 1), lambda: 1
    yield (*entry, 3, 1), lambda: pdu.name
    yield (*entry, 4, 1), lambda: NORMAL_LOAD
    yield (*entry, 5, 1), lambda: _measured(pdu, pdu.power_w / 10)
    yield (*entry, 9, 1), lambda: _counted(pdu, pdu.energy_j)


def _phase(pdu: VirtualPdu) -> Iterator[tuple[Oid, Callable[[], Value]]]:
    """Yield rPDU2PhaseStatus of the only phase: index, module, number, load state, then [0.1 A], [V] and [10 W]."""
    entry = (*RPDU2, 6, 3, 1)
    for column in (1, 2, 3):
        yield (*entry, column, 1), lambda: 1
    yield (*entry, 4, 1), lambda: NORMAL_LOAD
    yield (*entry, 5, 1), lambda: _measured(pdu, pdu.power_w / VOLTAGE_V * 10)
    yield (*entry, 6, 1), lambda: VOLTAGE_V
    yield (*entry, 7, 1), lambda: _measured(pdu, pdu.power_w / 10)


def _outlets(pdu: VirtualPdu) -> Iterator[tuple[Oid, Callable[[], Value]]]:
    """Yield rPDU2OutletMeteredStatus, row by row."""
    entry = (*RPDU2, 9, 4, 3, 1)
    for row in sorted(pdu.outlets):
        for column, value in _outlet(pdu, row).items():
            yield (*entry, column, row), value


def _outlet(pdu: VirtualPdu, row: int) -> dict[int, Callable[[], Value]]:
    """Return a row by column: index, module, name, number, state, current [0.1 A], power [W], energy [0.1 kWh]."""
    return {
        1: lambda: row,
        2: lambda: 1,
        3: lambda: f"Outlet {pdu.outlet_in(row)}",
        4: lambda: pdu.outlet_in(row),
        5: lambda: NORMAL_LOAD,
        6: lambda: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row)) / VOLTAGE_V * 10),
        7: lambda: _measured(pdu, pdu.outlet_w(pdu.outlet_in(row))),
        11: lambda: _counted(pdu, pdu.outlet_j(pdu.outlet_in(row))),
    }


def _measured(pdu: VirtualPdu, value: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else round(value)


def _counted(pdu: VirtualPdu, energy_j: float) -> int:
    return NOT_AVAILABLE if pdu.faults.sentinel else int(energy_j // TENTH_OF_KWH_J)
