"""The broker of a federation: polls the sites, chooses one for a job, and submits the job there.

`servers.run_broker` is the entry of the daemon, which keeps the reports of all sites (`site_poller`, `federation`) and
answers portals and commands (`servers`, `portal`). `offpeak submit` uses `submission` without a daemon.
plugin/federation chooses the site of a job of `federation`, which goes through the door to `site_commands`; the ledger
records every attempt before it is made.
"""
