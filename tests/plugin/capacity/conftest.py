"""Lets the tests of capacity policies import the plain record of needs, which the plain machine uses too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "sim_backend"))
