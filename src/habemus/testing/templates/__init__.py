"""Templates of `habemus new`: small algorithms that work, each with its test.

They are code, so that they are tested like code.
"""
