"""The page of the lab, measured in a browser."""
