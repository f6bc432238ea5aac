"""Does it pay to offer fewer nodes in dear hours? No paper's experiment: our own question to the profile policy."""
