"""Lets the tests import the benchmarks, which are no installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
