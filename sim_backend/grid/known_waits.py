"""Waits that need no forecast, and waits that are known less well than they are told."""

import numpy as np

from offpeak.model.arrays import Float64
from sim_backend.grid.broker import Moment
from sim_backend.grid.decide import Waits

HOUR_S = 3600.0


class NobodyWaits:
    """Every job starts at once."""

    def wait_s(self, moment: Moment) -> Float64:
        """Return zeros, float64[n, m]."""
        return np.zeros((len(moment.job), len(moment.sites)))


class WrongBy:
    """Adds to each wait up to so many hours, by chance.

    Murali and Vadhiyar 2018, section 5.3: a random value from 1 to P, here any from 0 to P.
    """

    def __init__(self, waits: Waits, most_h: float, seed: int) -> None:
        self._waits, self._most_s = waits, most_h * HOUR_S
        self._rng = np.random.default_rng(seed)

    def wait_s(self, moment: Moment) -> Float64:
        """Return the waits, each longer by its own chance."""
        said_s = self._waits.wait_s(moment)
        return np.asarray(said_s + self._rng.uniform(0.0, self._most_s, said_s.shape))
