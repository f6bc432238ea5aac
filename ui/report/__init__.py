"""The report: one HTML file that holds its figures and everything they need."""
