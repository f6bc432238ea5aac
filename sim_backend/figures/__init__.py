"""What the figures of a report are drawn from: arrays, exact, and how they are thinned out."""
