"""Proofs for every number of processes: handlers become formulas, and a solver does induction."""
