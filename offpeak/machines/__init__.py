"""The inventory of a site: its nodes, BMCs, PDUs and logins.

`inventory` holds the values, `inventory_file` reads them from TOML, `enrolment` writes into that file what NetBox,
RacksDB or a BMC knows. `credentials` reads passwords and keys, `node_sets` expands and folds node sets.
"""
