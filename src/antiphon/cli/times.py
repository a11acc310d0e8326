"""Times on the command line: an age such as `7d`, or a date such as `2026-11-16`."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime

_SECONDS = {"m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
TIME_HELP = "an age (30m, 24h, 7d, 2w) or a date (2026-11-16, 2026-11-16T09:30)"


def parse_time(text: str) -> float:
    """Parse an age or a local time into a Unix time, as a type of `argparse`."""
    if found := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return time.time() - int(found[1]) * _SECONDS[found[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is not {TIME_HELP}") from None
