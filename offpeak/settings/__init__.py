"""The settings: one table, from which come validation, the options of the command line, the example file and the docs.

`kinds` defines how a value is written, each other module the rows of its sections, and `table` joins all sections
(`Settings`, SETTINGS). `file` reads a settings file and the options into one value for each setting. A component is
given its section, never the whole.
"""
