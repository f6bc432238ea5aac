"""Checks of a site: the self-test, the enrolment of nodes, and the standby test.

The self-test reads every BMC, PDU, node, feed and permission once and changes nothing. `devices.py` checks hardware,
`findings.py` logins, the scheduler and feeds, and holds the results; `as_agent.py` runs the test as the user of the
agent. At the enrolment `devices.py` reads the identity and the capabilities of each BMC. `standby.py` suspends and
wakes a node through the door. The command line prints the findings and proofs.
"""
