"""The nodes in a replay: their states over time, their energy, and the delay of jobs by sleeping nodes.

`node_log` holds the transitions and sums them to energy and figures; `power_curve` is the machine's power over time;
`bounds` computes the best result of a policy that knows the future.
"""
