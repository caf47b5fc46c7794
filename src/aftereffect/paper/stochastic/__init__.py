"""The stochastic half of the paper."""
