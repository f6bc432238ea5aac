"""What electricity costs over time: series, tariffs, files, on-peak and off-peak, and where a log lies on them."""
