"""The queue hook decides the order of the live queue and which jobs wait for a cheaper hour. All decisions are pure.

`queue_plan.plan_queue` is the entry: `facts.QueueFacts`, with the groups of jobs that compete for nodes, and the site's
`QueueRules` go in, a `QueuePlan` comes out. First `start_times` plans begin times within the jobs' flexibility. Then
`positions` finds the site's own order, `window` reorders the first jobs of each group, and `queue_plan` writes the new
priorities down with marks and reasons. `checkpoints` stops running jobs after a checkpoint.
"""
