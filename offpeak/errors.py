"""The errors that an operator may see: what is wrong, where, and what to type next."""

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
    """Return the kind of an error; for an error that no rule tells apart, the name of its class."""
    kind = getattr(problem, "kind", None)
    return kind if isinstance(kind, ErrorKind) else type(problem).__name__


class OffpeakError(Exception):
    """Something failed; `offpeak` prints the message and the hint on one line each and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BadInput(OffpeakError):
    """What the user gave cannot be used: a file, an argument, a setting. Nothing was changed."""

    exit_code = 2


class BadSetting(BadInput):
    """A setting is unknown, of the wrong type or out of its range."""

    kind = ErrorKind.BAD_SETTING


class BadTrace(BadInput):
    """A job log cannot be read or has no job that can run."""


class BadPrices(BadInput):
    """A price file or tariff rule cannot be read, or does not cover what is asked."""


class BadInventory(BadInput):
    """The inventory of machines cannot be read, or lacks what is asked of it."""


class BadSites(BadInput):
    """The file of sites of a federation cannot be read, or lacks what is asked of it."""


class BadLedger(BadInput):
    """The ledger cannot be used as it is: no such file, of a newer program, or something else's. It is untouched."""


class DeviceError(OffpeakError):
    """A BMC, PDU or node did not say or do what it was asked; `may_retry` tells whether asking again can help."""

    may_retry = True


class NoAnswer(DeviceError):
    """Silent, unreachable, or not in time."""

    kind = ErrorKind.NO_ANSWER


class BadAnswer(DeviceError):
    """It answered, but with an error or with what makes no sense."""

    kind = ErrorKind.BAD_ANSWER


class AccessRefused(DeviceError):
    """User, password or key was refused. Nobody tries again with that credential: accounts get locked."""

    kind = ErrorKind.ACCESS_REFUSED
    may_retry = False


class WrongDevice(DeviceError):
    """It is not the device that was enrolled: another GUID, serial number or host key."""

    kind = ErrorKind.WRONG_DEVICE
    may_retry = False


class NotSupported(DeviceError):
    """The device has no such function."""

    kind = ErrorKind.NOT_SUPPORTED
    may_retry = False


class OrderTooLate(DeviceError):
    """The order was not sent: what allowed it is too old by now, or the session is gone in which it was to be sent."""

    kind = ErrorKind.ORDER_TOO_LATE


class SchedulerError(OffpeakError):
    """The scheduler did not say or do what it was asked: it is down, refuses, or its answer makes no sense."""


class CannotWrite(OffpeakError):
    """A result could not be written; what was there before is untouched."""
