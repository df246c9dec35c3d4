"""Bring GPU hosts to the vLLM recipe baseline for Kimi K3 and prove node by node that they are there."""

__version__ = "0.1.0"
