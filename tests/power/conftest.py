"""Lets the tests of what-ifs import the random snapshots beside this file, and the plain scheduler and random logs."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "sim_backend")]
