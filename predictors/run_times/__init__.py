"""Predictors of a job's run time [s].

`registry` lists them: the user's estimate, the user's last two run times (`last_two`), similar jobs, boosted trees; and
makes the one of the agent, which chooses among the first three. The kernel in `last_two_kernel` has its own file
because the engine inlines it.
"""
