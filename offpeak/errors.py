"""The errors that an operator may see: what is wrong, where, and what to type next."""


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


class BadTrace(BadInput):
    """A job log cannot be read or has no job that can run."""


class BadPrices(BadInput):
    """A price file or tariff rule cannot be read, or does not cover what is asked."""


class CannotWrite(OffpeakError):
    """A result could not be written; what was there before is untouched."""
