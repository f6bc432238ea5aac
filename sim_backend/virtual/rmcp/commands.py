"""Every command that a virtual BMC knows, the privilege that it takes (appendix G), and what a call of it answers."""

from collections.abc import Callable
from dataclasses import dataclass

from sim_backend.virtual.bmc import OPERATOR, USER
from sim_backend.virtual.rmcp import app_commands as app
from sim_backend.virtual.rmcp import chassis_commands as chassis
from sim_backend.virtual.rmcp import dcmi_commands as dcmi
from sim_backend.virtual.rmcp.call import INVALID_COMMAND, NO_PRIVILEGE, Call, Refused

CHASSIS, APP, GROUP = 0x00, 0x06, 0x2C
"""Network functions of table 5-1."""

BEFORE_LOGIN = 0
GARBAGE = b"\x00\xa5\x5a"
"""It succeeded, and says so with fewer bytes than any command has."""


@dataclass(frozen=True)
class Command:
    """What answers a command, and the privilege that it takes."""

    answer: Callable[[Call], bytes]
    privilege: int
    of_session: bool = False


COMMANDS = {
    (APP, 0x01): Command(app.device_id, USER),
    (APP, 0x07): Command(app.acpi_power_state, USER),
    (APP, 0x08): Command(app.device_guid, USER),
    (APP, 0x37): Command(app.system_guid, BEFORE_LOGIN),
    (APP, 0x38): Command(app.authentication_capabilities, BEFORE_LOGIN, of_session=True),
    (APP, 0x3B): Command(app.set_privilege, USER, of_session=True),
    (APP, 0x3C): Command(app.close_session, USER, of_session=True),
    (APP, 0x54): Command(app.cipher_suites, BEFORE_LOGIN, of_session=True),
    (CHASSIS, 0x01): Command(chassis.status, USER),
    (CHASSIS, 0x02): Command(chassis.control, OPERATOR),
    (CHASSIS, 0x04): Command(chassis.identify, OPERATOR),
    (CHASSIS, 0x06): Command(chassis.set_restore_policy, OPERATOR),
    (GROUP, 0x01): Command(dcmi.capabilities, USER),
    (GROUP, 0x02): Command(dcmi.power_reading, USER),
}
"""By network function and number. Those `of_session` answer rightly even where the BMC otherwise talks nonsense."""


def answer(call: Call, function: int, number: int) -> bytes:
    """Return completion code and data of a command."""
    command = COMMANDS.get((function, number))
    if command is None:
        return bytes([INVALID_COMMAND])
    if command.privilege > (call.session.privilege if call.session else BEFORE_LOGIN):
        return bytes([NO_PRIVILEGE])
    if call.bmc.faults.garbage and not command.of_session:
        return GARBAGE
    try:
        return b"\x00" + command.answer(call)
    except Refused as refused:
        return bytes([refused.code])
