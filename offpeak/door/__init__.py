"""The one door through which every effect goes: what it refuses does not happen, and what happens is recorded.

`effect` holds the order, its outcome, the mode and an admin's hold. `journal` is the port to the record, and the
history of a day that limits count. `door` asks the rules and limits, writes the intent, lets the act happen and
writes its outcome.
"""
