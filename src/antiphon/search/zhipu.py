"""Zhipu's search service: short queries, and at most one domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import Ask, Options, Vendor, listed, result, text

_QUERY_CHARS = 70  # its documentation asks for no more


def _ask(query: str, key: str, options: Options) -> Ask:
    rules = options.rules
    body: dict[str, Any] = {
        "search_query": query[:_QUERY_CHARS],
        "search_engine": "search_std",
        "search_intent": False,
        "count": options.count,
        "content_size": "high" if rules.size == "high" else "medium",
    }
    if len(rules.allowed) == 1:
        body["search_domain_filter"] = rules.allowed[0]
    headers = {"authorization": f"Bearer {key}"}
    return Ask(method="POST", path="/web_search", headers=headers, body=body)


def _read(document: Any) -> Sequence[SearchResult]:
    return [
        result(
            entry,
            url=text(entry, "link"),
            snippet=text(entry, "content"),
            published=text(entry, "publish_date"),
        )
        for entry in listed(document, "search_result")
    ]


VENDOR = Vendor(ask=_ask, read=_read, url="https://open.bigmodel.cn/api/paas/v4")
