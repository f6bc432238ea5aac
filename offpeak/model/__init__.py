"""The values of the cluster: jobs, nodes, machine room, snapshots, series over time, units and local time.

`jobs`, `node_class`, `facility` and `snapshot` describe what a policy decides on. `step_series` describes prices, and
adds up energy and money over them. `units` and `local_time` parse text at the edge; inside, the name of a number ends
in its unit. Files are read here into these values; nothing here has an effect.
"""
