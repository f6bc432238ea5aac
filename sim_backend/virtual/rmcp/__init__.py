"""The BMC's end of IPMI over LAN: RMCP+ sessions and the commands behind them (IPMI v2.0, chapters 13 and 22 to 28)."""
