"""Is the device that answers the one that was enrolled?"""

from offpeak.errors import WrongDevice
from offpeak.machines.inventory import Enrolment
from power.drivers.port import PowerDriver


async def check_identity(driver: PowerDriver, enrolled: Enrolment) -> None:
    """Return if the device is the one that was enrolled; WrongDevice if it is another or does not say, or NoAnswer.

    To be asked before every order that takes power away: an address may lead to another node since a repair.
    """
    identity = await driver.identity()
    if identity != enrolled.identity:
        is_now = f"says it is {identity}" if identity else "does not say who it is"
        what = f"{driver.name}: {is_now}, but {enrolled.identity} was enrolled on {enrolled.date}"
        raise WrongDevice(what, hint="look where the address leads; enrol the node again if its board was replaced")
