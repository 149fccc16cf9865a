"""`python -m habemus` is the same as `habemus`."""

from habemus.cli import main

main()
