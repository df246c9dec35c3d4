"""Deploys over a fleet: what would change, in which order, and stopping where a unit does not come back accepted.

pyinfra works in a process of its own and runs the same deploy file that a person would run by hand.
"""
