"""The catalog: algorithms, problems and cards by name."""
