"""The door: every effect passes it. The door refuses or records each effect.

`effect` defines the order, its outcome, the mode and an admin's hold. `journal` defines the port to the record and the
history of one day, which the limits count. `door` checks rules and limits, records, and runs the act.
"""
