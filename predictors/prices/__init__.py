"""Day-ahead prices of the coming days, from the prices before them: naive ones, SARIMA, LEAR and their ensemble."""
