"""IPMI: power by a node's BMC, over sessions that are held (pyghmi), or by the commands ipmitool and ipmipower."""
