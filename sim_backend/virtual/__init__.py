"""Hardware that is not there: nodes by a clock, BMCs that speak IPMI, PDUs that speak SNMP, all on loopback."""
