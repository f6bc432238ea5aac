"""Drivers switch a node and read its power state.

`port.py` holds the interface. `registry.py` is the entry: it creates a driver by its name in the inventory, and
`DriverPool` keeps the drivers of a site. Each kind of driver has one file or folder: `ipmi/`, `redfish.py`,
`power_control.py` (many nodes by one service), `ssh.py` (standby), `wake_on_lan.py`, `pbsnodes.py`. `transport.py`
holds what all drivers share: logins, sessions, time-out and clock. `poll.py` queries many nodes at once. Orders come
from the door and go through a driver to the device; observations are returned as values. Drivers make no decisions.
"""
