"""The configuration a command runs with: a file if there is one, else the environment."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.config import Config, find_config, load_config


def load_settings(explicit: str | None) -> Config:
    path = find_config(explicit, os.environ, Path.cwd())
    return Config() if path is None else load_config(path, os.environ)
