"""Capacity policies decide which nodes stay awake, which sleep, and how deeply. All decisions are pure.

`policies` makes a `CapacityPolicy` (see `port`) for a fleet under the site's settings. Its numbers are `rules` that the
kernels take: `sleepers` selects nodes and learns how soon idle nodes are needed again. The engine and the live power
loop call the same kernels.
"""
