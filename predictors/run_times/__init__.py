"""Predictors of a job's run time [s].

`registry` lists them: the user's estimate, the user's last two run times (`last_two`), boosted trees. The kernel in
`last_two_kernel` has its own file because the engine inlines it.
"""
