"""The plan of the live queue: made from the scheduler's state, repaired after events, and passed to the queue hook.

`make.plan_day` is the entry. `inputs` holds the inputs, `pools` converts them to one planning problem for each pool of
nodes, `join` solves or repairs each of them with offpeak.plugin.planner and puts the pools' plans together into a
`DayPlan` with its power profile and remarks. `day_plan` also converts it to JSON and into the hook's constraints.
"""
