"""The password of a BMC, read when somebody logs in."""

from offpeak.errors import AccessRefused, BadInput
from offpeak.machines.credentials import Secret
from power.drivers.ipmi.address import BmcAddress


def secret_of(bmc: BmcAddress) -> Secret:
    """Return the password; AccessRefused if its file cannot be used, which stops this login and nobody else's."""
    try:
        return bmc.credential.password()
    except BadInput as problem:
        raise AccessRefused(f"{bmc}: no login: {problem}", hint=problem.hint) from None
