"""IPMI: power by the BMC of a node, over sessions that stay open (pyghmi) or by the programs ipmitool and ipmipower.

`driver.py` is the entry. `bmc.py` holds address, login, presence check and errors of a BMC, `requests.py` the
requests and what their answers mean. `sessions.py` keeps the sessions of pyghmi, which `pyghmi_session.py` adapts;
`programs.py` runs ipmitool and ipmipower. A request goes through a session or a program to the BMC; its answer
comes back as bytes, or as a DeviceError.
"""
