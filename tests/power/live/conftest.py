"""Lets the tests of the power loop import what stands beside this file."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
