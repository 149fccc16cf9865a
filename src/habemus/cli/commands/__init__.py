"""The commands of `habemus`, one module each, imported when called."""
