"""The bundled simulated backend: a scheduling engine, readers of job logs, and simulated hardware.

A log is read (`traces`), aligned with prices and a machine (`case`), and replayed under a policy (`replay`) by the
compiled `engine`. `comparison` replays several policies and charges each one; `estimate` computes the savings on a
site's own log. `scheduler`, `pbs_standin` and `virtual` simulate a site's scheduler and its hardware for demos and
tests.
"""
