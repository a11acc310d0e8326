"""Gateways in processes of their own: only with ANTIPHON_CLUSTER (`make cluster-test`)."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ANTIPHON_CLUSTER") else ["*"]
