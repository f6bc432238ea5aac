"""The BMC's end of IPMI over LAN: RMCP+ sessions and their commands (IPMI v2.0, chapters 13, 20, 22 and 28)."""
