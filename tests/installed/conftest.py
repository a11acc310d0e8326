"""The wheel in a virtual environment of its own: only with ANTIPHON_INSTALLED, the directory of
that environment, as `make installed` sets it."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("ANTIPHON_INSTALLED") else ["*"]
