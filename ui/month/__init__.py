"""`offpeak report`: what a month used, cost and saved, by account.

`command` parses, `answer` reads the ledger and shows the month as text and page, `subject` holds the figures and
their texts. `year` answers with the yearly sheet of a data centre instead, `bill` with a power bill.
"""
