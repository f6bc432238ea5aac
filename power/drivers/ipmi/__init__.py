"""IPMI: switches a node through its BMC, over sessions that stay open (pyghmi) or by the programs ipmitool and
ipmipower.

`driver.py` is the entry. `bmc.py` holds address, login, presence check and errors of a BMC, `requests.py` the requests
and the parsers of their answers. `sessions.py` keeps the sessions of pyghmi, which `pyghmi_session.py` adapts;
`programs.py` runs ipmitool and ipmipower. A request goes through a session or a program to the BMC; the answer is bytes
or a DeviceError.
"""
