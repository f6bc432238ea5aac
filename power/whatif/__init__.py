"""What-if simulation: runs the scheduling engine on from a snapshot of the queue and of the nodes.

`snapshot_file` reads and writes snapshots, `simulation` runs the engine and returns a WhatIfPlan.
"""
