"""The log of a process, in lines that no terminal takes for commands."""

import logging
from pathlib import Path
from typing import Any

from offpeak.text import printable

LONGEST_LINE = 10_000


class PrintableFormatter(logging.Formatter):
    """Writes each record on one line without control characters: it may hold what users, devices and servers wrote."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line of the record."""
        return printable(super().formatMessage(record), enough=LONGEST_LINE)

    def formatException(self, fault: Any) -> str:  # noqa: N802
        """Return the traceback, line by line."""
        lines = super().formatException(fault).splitlines()
        return "\n".join(line if line.isprintable() else printable(line, enough=LONGEST_LINE) for line in lines)


def begin_log(form: str, file: Path | None = None) -> None:
    """Log from now on, in lines of that form, to the file or to standard error."""
    handler = logging.FileHandler(file) if file else logging.StreamHandler()
    handler.setFormatter(PrintableFormatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
