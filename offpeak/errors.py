"""The errors that an operator may see: the problem, its place, and the command to type next."""

from enum import StrEnum


class ErrorKind(StrEnum):
    """The kinds of errors that rules and retries tell apart. The members are the text that the ledger stores."""

    NO_ANSWER = "NoAnswer"
    BAD_ANSWER = "BadAnswer"
    ACCESS_REFUSED = "AccessRefused"
    WRONG_DEVICE = "WrongDevice"
    NOT_SUPPORTED = "NotSupported"
    ORDER_TOO_LATE = "OrderTooLate"
    BAD_SETTING = "BadSetting"


def error_kind(problem: BaseException) -> str:
    """Return the kind of an error; for an error without a kind, the name of its class."""
    kind = getattr(problem, "kind", None)
    return kind if isinstance(kind, ErrorKind) else type(problem).__name__


class OffpeakError(Exception):
    """The base of all errors. `offpeak` prints the message and the hint on a line each and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BadInput(OffpeakError):
    """A file, an argument or a setting of the user is not usable. Nothing was changed."""

    exit_code = 2


class BadSetting(BadInput):
    """A setting is unknown, of the wrong type or out of its range."""

    kind = ErrorKind.BAD_SETTING


class BadTrace(BadInput):
    """A job log cannot be read or has no job that can run."""


class BadPrices(BadInput):
    """A price file or tariff rule cannot be read, or does not cover the requested time."""


class BadInventory(BadInput):
    """The inventory of machines cannot be read, or lacks a requested entry."""


class BadSites(BadInput):
    """The file of sites of a federation cannot be read, or lacks a requested entry."""


class BadLedger(BadInput):
    """The ledger is not usable: the file is missing, or of a newer or another program. It is unchanged."""


class DeviceError(OffpeakError):
    """A BMC, PDU or node did not answer or obey."""


class NoAnswer(DeviceError):
    """The device is silent, unreachable, or too slow."""

    kind = ErrorKind.NO_ANSWER


class BadAnswer(DeviceError):
    """The device answered with an error or with an invalid reply."""

    kind = ErrorKind.BAD_ANSWER


def unexpected_error(device: str, problem: Exception) -> BadAnswer:
    """Return the error of a device for any error at a request to it, such as one of a file of the settings."""
    if isinstance(problem, OffpeakError):
        return BadAnswer(f"{device}: {problem}", hint=problem.hint)
    return BadAnswer(f"{device}: its answer is not understood: {problem!r:.200}", hint="please report that")


class AccessRefused(DeviceError):
    """The device refused the user, password or key. A retry might lock the account."""

    kind = ErrorKind.ACCESS_REFUSED


class WrongDevice(DeviceError):
    """The device is not the enrolled one: its GUID, serial number or host key differs."""

    kind = ErrorKind.WRONG_DEVICE


class NotSupported(DeviceError):
    """The device has no such function."""

    kind = ErrorKind.NOT_SUPPORTED


class OrderTooLate(DeviceError):
    """The order was not sent: the answer that allowed it is too old, or its session is closed."""

    kind = ErrorKind.ORDER_TOO_LATE


class SchedulerError(OffpeakError):
    """The scheduler did not answer or obey: it is down, it refuses, or its answer is invalid."""


class ListRefused(SchedulerError):
    """The scheduler refused an order for several nodes without saying for which."""


class CannotWrite(OffpeakError):
    """A result could not be written; the earlier content is unchanged."""
