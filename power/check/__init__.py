"""Checks of a site: the self-test, the enrolment of nodes, and the test of standby.

The self-test reads every BMC, PDU, node, feed and permission once and changes nothing: `devices.py` checks
hardware, `access.py` logins, the scheduler and feeds, `findings.py` holds the results, `as_agent.py` runs it as the
user of the agent. `enrolment.py` reads the identity and the capabilities of each BMC. `standby.py` suspends and
wakes a node, through the door. Inventory and settings flow in, findings and proofs flow out to the command line.
"""
