"""PDUs over SNMP: what each family of them says where is data, and one small interpreter reads it."""
