"""Predictors of a job's run time [s].

`registry` lists them: the user's estimate, the user's last two run times (`last_two`, which the engine inlines),
similar jobs, boosted trees; and makes the one of the agent, which chooses among the first three.
"""
