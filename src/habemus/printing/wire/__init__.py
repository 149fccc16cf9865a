"""The protocol and the code that is generated from it; `make wire` writes that anew, and a test
compares.
"""
