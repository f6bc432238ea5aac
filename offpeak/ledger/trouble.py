"""What is wrong with the ledger, for the operator and for whoever asks whether all is recorded."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """Why nothing can be written, since when; how many rows wait and how many were given up.

    `said` is empty where writing works again but rows were lost before.
    """

    said: str
    hint: str
    since_unix_s: float
    waiting: int
    dropped_readings: int
    dropped_others: int
