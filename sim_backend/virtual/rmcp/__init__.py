"""The BMC's end of IPMI over LAN: RMCP+ sessions and their commands (IPMI v2.0, chapters 13, 20, 22 and 28).

`server` is the entry: it takes a datagram, `sessions` reads its layers, checks and decrypts it, `login` opens sessions,
and a command of `server` acts on the BMC; the answer goes back the same way.
"""
