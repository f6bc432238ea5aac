"""How good predictors are: replayed in time order, so that none can look ahead."""
