"""Opens the book in which states, holds and actions are written."""

from offpeak.settings import Settings
from power.lifecycle.memory_book import MemoryBook
from power.lifecycle.state_book import StateBook


def open_book(_settings: Settings) -> StateBook:
    """Return the book of the site."""
    return MemoryBook()
