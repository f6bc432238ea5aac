"""`offpeak prices`: which prices are known, and from which source.

`command` parses, `answer` reads the feed and prints or draws.
"""
