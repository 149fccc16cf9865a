"""What `habemus new` writes: small algorithms that work, each with its test.  They are kept as
code, so that they are tested as code.
"""
