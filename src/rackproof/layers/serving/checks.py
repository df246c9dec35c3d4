"""Checks of layer serving."""
