"""`offpeak demo`: all of offpeak in a minute, on a cluster that is not there."""
