"""Lets the tests of the simulator import what they share: the plain schedulers and the random logs beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
