"""Commands that run under a lock: start them, watch the lock, end them and everything that they
started.
"""
