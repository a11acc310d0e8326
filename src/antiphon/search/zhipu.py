"""Zhipu's web search API: short queries, and a filter for at most one domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.web_search.sources import SearchResult
from antiphon.search.backend import (
    SearchOptions,
    SearchRequest,
    SearchVendor,
    build_result,
    read_objects,
    read_text,
)

_MAX_QUERY_CHARS = 70  # the documented maximum


def _build_request(query: str, key: str, options: SearchOptions) -> SearchRequest:
    rules = options.rules
    body: dict[str, Any] = {
        "search_query": query[:_MAX_QUERY_CHARS],
        "search_engine": "search_std",
        "search_intent": False,
        "count": options.count,
        "content_size": "high" if rules.size == "high" else "medium",
    }
    if len(rules.allowed) == 1:
        body["search_domain_filter"] = rules.allowed[0]
    headers = {"authorization": f"Bearer {key}"}
    return SearchRequest(method="POST", path="/web_search", headers=headers, body=body)


def _parse_response(document: Any) -> Sequence[SearchResult]:
    return [
        build_result(
            entry,
            url=read_text(entry, "link"),
            snippet=read_text(entry, "content"),
            published=read_text(entry, "publish_date"),
        )
        for entry in read_objects(document, "search_result")
    ]


VENDOR = SearchVendor(
    build_request=_build_request,
    parse_response=_parse_response,
    url="https://open.bigmodel.cn/api/paas/v4",
)
