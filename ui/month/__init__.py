"""`offpeak report`: what a month used, cost and saved, by account.

`command` parses, `answer` reads the ledger and replays the month, `subject` holds the figures and
their texts, and `page` shows them. `year` answers with the yearly sheet of a data centre instead.
"""
