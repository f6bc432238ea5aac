"""The self-test: every BMC, PDU, node, feed and permission asked once, and nothing changed."""
