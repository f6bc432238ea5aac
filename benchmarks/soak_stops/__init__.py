"""The soak of stops: the agent is stopped, reloaded and disturbed at random moments while nodes sleep and wake.

The service, the resume program, the door and the ledger are the real ones; nodes, BMCs and the scheduler are virtual,
and a fast clock moves all of them. `site` is what the agent finds, `faults` what goes wrong, `witness` what must not
be, `run` the soak itself.
"""
