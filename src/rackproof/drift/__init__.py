"""Drift: what changed on a node since the evidence that was last accepted, by the class of each fact."""
