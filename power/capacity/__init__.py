"""The capacity policies by name: how many nodes of a pool have to be awake.

`registry` is the entry. The plain policies are in plugin.capacity; those that simulate are here: `online_simulation`
(OLS) and `profile_policy`, which searches with `profile_simulation` for the cheapest `price_profile`. `levers` measures
on a site's log what policies would have saved.
"""
