"""Metrics with Prometheus' own tool: only with ANTIPHON_PROMETHEUS, as `make metrics` sets it."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ANTIPHON_PROMETHEUS") else ["*"]
