"""One self-contained HTML file: no network, no framework, readable without colour, on paper and by keyboard."""

from __future__ import annotations

from rackproof.verdict.report.html.page import render

__all__ = ["render"]
