"""PDUs over SNMP. A family of PDUs is a data file; one interpreter reads all families.

`pdu.py` is the entry: a PDU as a meter. `family.py` holds a family and reads its file in `families/`. `layout.py` finds
the rows of one PDU by its family. `engines.py` and `client.py` speak SNMP by pysnmp. One walk of the PDU gives its
layout; each reading requests its OIDs in few packets.
"""
