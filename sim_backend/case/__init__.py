"""The case of a replay: the common inputs of a comparison.

`replay_case` is the entry: it makes the case from a log and the settings. `machine_size` counts the machine,
`electricity` lays prices and carbon intensity on the log's time and adds the machine room's cooling.
"""
