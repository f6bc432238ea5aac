"""A comparison of policies on one case.

`compare` is the entry: it replays the case under each policy and charges each one; `outcome` holds the figures.
`replications` repeats this with shifted submit times, to tell an effect from chance. `breakdown` groups energy and
money, and `figures` makes the arrays that a report draws.
"""
