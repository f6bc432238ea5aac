"""How long will a job wait in the queue? Several predictors behind one port, and an arbiter over them."""
