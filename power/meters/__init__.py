"""Meters: they read the power and the energy of machines.

`port.py` holds the interface and one round over many meters, `registry.py` the entry: it makes the meters of a
site. One file or folder for each kind of meter: `dcmi.py` and `redfish.py` (BMCs), `ssh.py` and `kernel.py` (RAPL,
hwmon), `slurm.py`, `snmp/` (PDUs). `energy.py` integrates readings to energy and compares the meters of one node.
Readings flow from the meters to the callers (the agent, the self-test, `offpeak power`); meters store nothing.
"""
