"""Drivers: they switch a node, and read whether it is on.

`port.py` holds the interface, `registry.py` the entry: it makes a driver by its name in the inventory, and
`DriverPool` keeps those of a site. One file or folder for each kind of driver: `ipmi/`, `redfish.py`, `ssh.py`
(standby), `wake_on_lan.py`, `pbsnodes.py`. `transport.py` holds what all of them share: logins, sessions, time-out
and clock. `poll.py` queries many nodes at once. Orders arrive from the door and go through a driver to the device;
observations come back as values. Drivers decide nothing.
"""
