"""What nodes did in a replay: their states over time, their energy, and what sleeping cost the jobs.

`node_log` holds the transitions and sums them to energy and figures; `power_curve` is the machine's power over time;
`bounds` says what a policy that knows the future could have reached at best.
"""
