"""Checks of layer rdma."""
