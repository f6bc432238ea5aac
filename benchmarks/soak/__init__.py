"""The soak: an hour of reading BMCs and PDUs of which some are always ill. Nothing may leak, grow or be wrong."""
