"""The adversarial half of the paper."""
