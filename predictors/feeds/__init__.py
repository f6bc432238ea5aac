"""Feeds of known prices, carbon intensity and outside temperature.

`registry` makes the feeds that the settings name. A `Feed` polls its sources in order (the modules of services, and
`declared`), judges each answer, and falls back on the last good series. `port` defines sources, windows,
problems and quantities; `markets` knows when each market publishes; `web` fetches.
"""
