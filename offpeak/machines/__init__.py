"""The machines of a site: nodes, their BMCs, PDUs, and who may log in where."""
