"""The evaluation of predictors: replayed in time order, so that none can look ahead.

`evaluation` takes any predictor through an exam and scores its answers; `exams` makes the exams about run times, power,
waits and prices.
"""
