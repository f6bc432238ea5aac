"""`offpeak plan`: when each job of the queue is to start.

`command` parses, `answer` makes or requests the plan and applies it, `text` and `page` show it.
"""
