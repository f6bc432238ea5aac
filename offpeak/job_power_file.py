"""Reads what jobs draw per node from a table made by the site: by job or by user."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.jobs import Float64, Int64, Jobs
from offpeak.plural import counted
from offpeak.units import HIGHEST_NODE_W

LARGEST = 2.0**53  # above it a float no longer holds every whole number
HEADERS = "job_id,watts_per_node", "user,watts_per_node"
HEADER_HINT = f"the first line says what the first column is: {HEADERS[0]} or {HEADERS[1]}"


def power_from_file(path: Path, jobs: Jobs) -> Float64:
    """Return each job's draw per node [W], float64[n], from CSV with one of HEADERS; BadInput if one is missing."""
    rows = csv.reader(read_bytes(path, BadInput).decode(errors="replace").splitlines())
    by = _key_column(next(rows, []), path)
    table = _table(rows, path)
    keys = jobs.job_id if by == "job_id" else jobs.user
    known = np.array(sorted(table), np.int64)
    missing = ~np.isin(keys, known)
    if missing.any():
        first = int(keys[missing][0])
        jobs_without = counted(int(np.count_nonzero(missing)), "job")
        message = f"{path}: no power in it for {jobs_without}, the first is of {by} {first}"
        raise BadInput(message, hint=f"add a line such as {first},250")
    return _looked_up(table, known, keys)


def _key_column(header: list[str], path: Path) -> Literal["job_id", "user"]:
    match [name.strip() for name in header]:
        case ["job_id", "watts_per_node"]:
            return "job_id"
        case ["user", "watts_per_node"]:
            return "user"
    raise BadInput(f"{path}:1: the header is {','.join(header)[:60]!r}", hint=HEADER_HINT)


def _table(rows: Iterator[list[str]], path: Path) -> dict[int, float]:
    table: dict[int, float] = {}
    for line, fields in enumerate(rows, 2):
        if not fields:
            continue
        row = _row(fields)
        if row is None:
            message = (
                f"{path}:{line}: not a whole number and a power above zero and below 1 MW: {','.join(fields)[:60]!r}"
            )
            raise BadInput(message, hint="write the number and the watts per node without a unit, such as 7,250")
        if row[0] in table:
            raise BadInput(f"{path}:{line}: {row[0]} is there twice", hint="keep one line for each")
        table[row[0]] = row[1]
    return table


def _row(fields: list[str]) -> tuple[int, float] | None:
    try:
        key, power_w = map(float, fields)
    except ValueError:
        return None
    return (int(key), power_w) if abs(key) <= LARGEST and key.is_integer() and 0 < power_w <= HIGHEST_NODE_W else None


def _looked_up(table: dict[int, float], known: Int64, keys: Int64) -> Float64:
    power_w = np.array([table[key] for key in known.tolist()])
    return power_w[np.searchsorted(known, keys)]
