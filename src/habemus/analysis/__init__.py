"""Many runs seen together: sweeps over seeds, algorithms side by side, what a crash of each role
does, voting sets as pictures.
"""
