"""The command line: the `offpeak` command, its tables and its pages.

`command` is the entry. Each subcommand is imported when it is named, so a `command` module imports at its top only what
its options need. The subcommand builds a request (`requests`) and passes it to the module of its name, which imports
the libraries and prints the result: `offpeak --version` must not wait for them.
"""
