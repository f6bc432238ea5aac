"""What a month used, cost and saved, by account: `offpeak report`."""
