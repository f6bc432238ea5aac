"""The capacity policies by name: how many nodes of a pool must be awake.

`registry` is the entry. The simple policies are in offpeak.plugin.capacity, those that simulate are here:
`online_simulation` (OLS) and `profile_policy`, which uses `profile_simulation` to find the cheapest `price_profile`.
`levers` measures on a site's log what the policies would have saved.
"""
