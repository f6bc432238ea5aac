"""Meters read the power and the energy of machines.

`port.py` holds the interface and reads many meters at once. `registry.py` is the entry: it creates the meters of a
site. Each kind of meter has one file or folder: `bmc.py` (DCMI, Redfish), `kernel.py` (RAPL, hwmon, also by ssh),
`gpu.py` (nvidia-smi, Prometheus), `slurm.py`, `snmp/` (PDUs). `energy.py` integrates readings to energy and compares
the meters of one node. Readings flow from the meters to the callers (the agent, the self-test, `offpeak power`); meters
store nothing.
"""
