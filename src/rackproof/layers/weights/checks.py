"""Checks of layer weights."""
