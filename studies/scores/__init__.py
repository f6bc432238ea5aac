"""Scores of all predictors, side by side: on price files and on job logs.

`scoring` is the entry: it divides files into tasks, runs them in several processes and collects tables.
`price_scores` does so for price files, `log_scores` for job logs; `forecast` uses its exams too.
"""
