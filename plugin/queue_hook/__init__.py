"""The queue hook decides the order of the live queue and which jobs wait for a cheaper hour. All decisions are pure.

`queue_plan.plan_queue` is the entry: `facts.QueueFacts` and the site's `QueueRules` go in, a `QueuePlan` comes out.
First `start_times` decides begin times within the `user_hints`. Then `positions` finds the site's own order, `window`
reorders each pool's first jobs, and `reorder` turns the new order into priorities, marks and reasons.
"""
