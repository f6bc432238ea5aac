"""Simulated hardware: nodes by a clock, BMCs that speak IPMI, PDUs that speak SNMP, all on loopback.

`machine_room` is the entry: it opens the room that a `room_plan` describes, the BMC of each `node` behind a server of
`rmcp`, and PDUs that answer by SNMP. Orders reach a node through its BMC; power and energy come back from both.
"""
