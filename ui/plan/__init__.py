"""`offpeak plan`: the planned start of each job in the queue.

`command` parses, `answer` makes or requests the plan, applies it and shows it.
"""
