"""The day-ahead plan: which job starts when and on which nodes, so that revenue less energy and cooling is largest."""
