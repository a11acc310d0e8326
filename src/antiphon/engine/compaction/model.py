"""The model of `[compaction] model`, which writes summaries in place of the request's own."""

from __future__ import annotations

from antiphon.config import Config
from antiphon.engine.routing import Router
from antiphon.errors import InvalidRequest


def check_compaction_model(config: Config, router: Router) -> None:
    """Raise `ConfigError` if `[compaction] model` does not exist."""
    name = config.compaction.model
    if not name:
        return
    try:
        router.resolve(name)
    except InvalidRequest as error:
        raise config.error_at(("compaction", "model"), error.message) from error
