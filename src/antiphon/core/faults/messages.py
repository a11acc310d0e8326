"""Fault descriptions for clients, by locale: what failed, why, and what to do.

A text depends on the type and the code of a fault and on the name of the configured provider, so
nothing an upstream wrote can get into it: no message, no key, no address. Only a status, a delay
and a code that is on our own list are shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.faults.kinds import FaultKind

DEFAULT_LOCALE = "en"

# Reasons for blocking that may be shown: vendors' enum values, never free text.
_SHOWN_REASONS = frozenset(
    """
    SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE IMAGE_SAFETY
    IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION OTHER JAILBREAK MODEL_ARMOR
    sensitive guardrail_intervened content_filtered
    """.split()
)

Texts: TypeAlias = Mapping[str, Mapping[str, str]]
"""Locale → key → text. A key is a fault type, `type/code`, or one of the parts below."""

UNEXPECTED_FINISH = "unexpected_finish_reason"
"""The code of a fault whose `upstream.code` is the provider's finish reason, and may be shown."""
_PROVIDER = "provider"
_NAMED_PROVIDER = "provider/named"
_DELAY = "delay"
_REASON = "reason"
_STATUS = "status"
_PROGRESS = "progress"

_ENGLISH: Mapping[str, str] = {
    "api_error": "{provider} refused the request. See the gateway's log for its reason.",
    "api_error/not_found": "{provider} has no API at the configured address. "
    "Check its base URL in the gateway's configuration.",
    "api_error/redirected": "{provider} responded with a redirect, which the gateway never "
    "follows. Check its base URL in the gateway's configuration.",
    "api_error/tool_use_failed": "{provider} could not parse a tool call that the model wrote. "
    "Send the request again.",
    "api_error/internal_error": "The request failed because of a defect of the gateway, not of the "
    "provider. See `gateway.bug` in the gateway's log, and report it.",
    "api_error/shutting_down": "The gateway is restarting. Send the request again.",
    "api_error/mcp_list_failed": "The MCP server {server!r} did not list its tools "
    "({reason}). Check its address and credentials, or leave it out.",
    "api_error/out_of_files": "The gateway has reached its limit of open files, so it could not "
    "connect to {provider}. Send the request again later, or raise the limit (ulimit -n).",
    "api_error/out_of_threads": "The gateway has reached its limit of threads. Send the request "
    "again later, or raise the limit (ulimit -u).",
    "rate_limit": "{provider}'s rate limit was reached. Send fewer requests, or add another key.",
    "content_blocked": "{provider}'s content filter blocked the request or the response. "
    "Change the wording and send it again.",
    "timeout": "{provider} took too long to respond. Send the request again.",
    "timeout/connect_timeout": "{provider} could not be reached in time. "
    "Check the network, or send the request again.",
    "timeout/first_token_timeout": "{provider} sent no output in the time allowed for the first "
    "token. Send the request again, or choose a faster model.",
    "timeout/idle_timeout": "{provider} stopped sending output before the response was complete. "
    "Send the request again.",
    "timeout/total_timeout": "The response was not complete in the time allowed for a request. "
    "Request a shorter response, or raise the total timeout.",
    "provider_overloaded": "{provider} is overloaded. "
    "Send the request again, or choose another model.",
    "api_error/server_error": "{provider} reported an internal error. "
    "Send the request again, or choose another model.",
    "provider_overloaded/bad_gateway": "{provider} reported that a server behind it failed. "
    "Send the request again, or choose another model.",
    "auth": "{provider} rejected the API key. Check the key that is configured for this provider.",
    "billing": "{provider} reports that the account has no credit or quota left. "
    "Top up the account, or use another key.",
    "billing/model_quota_exhausted": "{provider} reports that the quota of this model is used up. "
    "Raise it in the account, or choose another model.",
    "permission": "{provider} does not allow this key to make this request. "
    "Check the permissions of the account, or choose another model.",
    "invalid_request": "{provider} rejected the request as invalid. "
    "See the gateway's log for its reason.",
    "invalid_request/invalid_image": "{provider} could not read an image in the request. "
    "Check its format, its size and its address.",
    "invalid_request/reasoning_rejected": "{provider} rejected the reasoning of an earlier turn. "
    "Send the request again; if that fails too, start a new conversation.",
    "model_error": "{provider} does not offer this model. Check its name, or choose another model.",
    "context_length": "The conversation is too long for the context window of this model. "
    "Shorten it, or choose a model with a larger context window.",
    "protocol": "{provider} sent a response that is cut off or cannot be parsed. "
    "Send the request again.",
    "protocol/incomplete_tool_call": "{provider} ended its response within a tool call. "
    "Send the request again.",
    "protocol/invalid_tool_arguments": "The model called a strict tool with arguments that are not "
    "valid JSON. Send the request again.",
    "protocol/response_too_large": "{provider} sent a larger response than the gateway accepts. "
    "Request a shorter response, or raise the limits in [limits] of the gateway's configuration.",
    "protocol/invalid_output_format": "The model's output does not match the requested format. "
    "Send the request again, or simplify the schema.",
    "protocol/no_finish_reason": "{provider} returned no finish reason. Send the request again.",
    "protocol/unexpected_finish_reason": "{provider} sent an unexpected finish reason.",
    "protocol/network_error": "{provider} reported a network error. Send the request again.",
    "protocol/insufficient_system_resource": "{provider} ran out of capacity. "
    "Send the request again.",
    "protocol/malformed_model_output": "{provider} could not parse the output of the model. "
    "Send the request again.",
    "protocol/malformed_tool_use": "{provider} could not parse a tool call of the model. "
    "Send the request again.",
    "protocol/generation_error": "{provider} reported an error. Send the request again.",
    "protocol/generation_aborted": "{provider} aborted the response. Send the request again.",
    "protocol/generation_timeout": "{provider} timed out. Send the request again.",
    "connection": "{provider} could not be reached, or closed the connection. "
    "Check the network and its base URL, or send the request again.",
    "connection/stream_cut": "{provider} closed the connection before its response was complete. "
    "Send the request again.",
    "cancelled": "The request was cancelled.",
    "unknown": "{provider} reported an error that the gateway does not recognize. "
    "See the gateway's log for the details.",
    _PROVIDER: "The provider",
    _NAMED_PROVIDER: "{provider}",
    # Codex finds the delay by these words: clients rely on them.
    _DELAY: " Please try again in {delay} s.",
    _REASON: " Reason: {code}.",
    _STATUS: " (HTTP {status})",
    _PROGRESS: " (After {seconds} s, {chunks} of its chunks had arrived.)",
}

_CHINESE: Mapping[str, str] = {
    "api_error": "{provider}拒绝了该请求，具体原因见网关日志。",
    "api_error/not_found": "{provider}在所配置的地址上没有 API，请检查网关配置中的 base URL。",
    "api_error/redirected": "{provider}返回了重定向，网关不会跟随，请检查网关配置中的 base URL。",
    "api_error/tool_use_failed": "{provider}无法解析模型生成的工具调用，请重新发送请求。",
    "api_error/internal_error": "请求因网关自身的缺陷而失败，与服务商无关。"
    "请查看网关日志中的 gateway.bug 并报告。",
    "api_error/shutting_down": "网关正在重启，请重新发送请求。",
    "api_error/mcp_list_failed": "MCP 服务器 {server!r} 未能列出其工具（{reason}），"
    "请检查其地址和凭据，或将其移除。",
    "api_error/out_of_files": "网关打开的文件数已达上限，无法连接{provider}，"
    "请稍后重新发送请求，或提高上限（ulimit -n）。",
    "api_error/out_of_threads": "网关的线程数已达上限，请稍后重新发送请求，"
    "或提高上限（ulimit -u）。",
    "rate_limit": "{provider}的速率限制已达到，请降低请求频率或增加其他密钥。",
    "content_blocked": "{provider}的内容过滤拦截了请求或回答，请修改措辞后重新发送。",
    "timeout": "{provider}响应超时，请重新发送请求。",
    "timeout/connect_timeout": "{provider}连接超时，请检查网络或重新发送请求。",
    "timeout/first_token_timeout": "{provider}未在首个 token 的时限内开始输出，"
    "请重新发送请求或换用更快的模型。",
    "timeout/idle_timeout": "{provider}在回答完成之前停止输出，请重新发送请求。",
    "timeout/total_timeout": "回答未能在请求的总时限内完成，请缩短回答或延长总时限。",
    "provider_overloaded": "{provider}当前过载，请重新发送请求或换用其他模型。",
    "api_error/server_error": "{provider}发生内部错误，请重新发送请求或换用其他模型。",
    "provider_overloaded/bad_gateway": "{provider}的后端服务出错，请重新发送请求或换用其他模型。",
    "auth": "{provider}拒绝了该 API 密钥，请检查为该服务商配置的密钥。",
    "billing": "{provider}报告账户余额或配额已用尽，请充值或换用其他密钥。",
    "billing/model_quota_exhausted": "{provider}报告该模型的配额已用尽，"
    "请在账户中提高配额或换用其他模型。",
    "permission": "{provider}不允许该密钥执行此请求，请检查账户权限或换用其他模型。",
    "invalid_request": "{provider}认为该请求无效，具体原因见网关日志。",
    "invalid_request/invalid_image": "{provider}无法读取请求中的图片，请检查其格式、大小和地址。",
    "invalid_request/reasoning_rejected": "{provider}不接受先前轮次的推理内容，请重新发送请求；"
    "若仍失败，请开始新的对话。",
    "model_error": "{provider}不提供该模型，请检查模型名称或换用其他模型。",
    "context_length": "对话超出该模型的上下文长度，请缩短对话或换用上下文更长的模型。",
    "protocol": "{provider}的回答中断或无法解析，请重新发送请求。",
    "protocol/incomplete_tool_call": "{provider}的回答在工具调用中途结束，请重新发送请求。",
    "protocol/invalid_tool_arguments": "模型调用 strict 工具时给出的参数不是有效的 JSON，"
    "请重新发送请求。",
    "protocol/response_too_large": "{provider}的回答超过网关允许的大小，请缩短回答，"
    "或提高网关配置中 [limits] 的限制。",
    "protocol/invalid_output_format": "模型的回答不符合要求的格式，请重新发送请求或简化 schema。",
    "protocol/no_finish_reason": "{provider}未给出结束原因，请重新发送请求。",
    "protocol/unexpected_finish_reason": "{provider}给出了未知的结束原因。",
    "protocol/network_error": "{provider}报告了网络错误，请重新发送请求。",
    "protocol/insufficient_system_resource": "{provider}资源不足，请重新发送请求。",
    "protocol/malformed_model_output": "{provider}无法解析模型的输出，请重新发送请求。",
    "protocol/malformed_tool_use": "{provider}无法解析模型的工具调用，请重新发送请求。",
    "protocol/generation_error": "{provider}报告了错误，请重新发送请求。",
    "protocol/generation_aborted": "{provider}中止了回答，请重新发送请求。",
    "protocol/generation_timeout": "{provider}生成超时，请重新发送请求。",
    "connection": "{provider}无法连接或关闭了连接，请检查网络和 base URL，或重新发送请求。",
    "connection/stream_cut": "{provider}在回答完成之前关闭了连接，请重新发送请求。",
    "cancelled": "请求已取消。",
    "unknown": "{provider}报告了网关无法识别的错误，详情见网关日志。",
    _PROVIDER: "服务商",
    _NAMED_PROVIDER: "{provider} ",
    _DELAY: "请在 {delay} 秒后重试 (try again in {delay} s)。",
    _REASON: "原因：{code}。",
    _STATUS: "（HTTP {status}）",
    _PROGRESS: "（{seconds} 秒内已收到 {chunks} 个数据块）",
}

TEXTS: Texts = {"en": _ENGLISH, "zh": _CHINESE}


def describe(
    fault: ProviderFault,
    locale: str = DEFAULT_LOCALE,
    *,
    provider: str = "",
    texts: Texts = TEXTS,
) -> str:
    """Describe a fault to a client: what failed, why, and what to do, in the client's locale.

    `provider` is the configured name or title, where it is known. A key that a locale lacks is
    taken from the next wider one: xx-YY, xx, en.
    """
    names = (*_wider_locales(locale), DEFAULT_LOCALE)
    languages = [texts[name] for name in names if name in texts]

    def text(*keys: str) -> str:
        return next(found[key] for key in keys for found in languages if key in found)

    named = text(_NAMED_PROVIDER).format(provider=provider) if provider else text(_PROVIDER)
    parts = [text(f"{fault.type}/{fault.code}", fault.type).format(provider=named, **_mcp(fault))]
    if (reason := _shown_reason(fault)) is not None:
        parts.append(text(_REASON).format(code=reason))
    if fault.retryable and fault.retry_after_s is not None:
        parts.append(text(_DELAY).format(delay=_seconds(fault.retry_after_s)))
    if fault.status is not None:
        parts.append(text(_STATUS).format(status=fault.status))
    if fault.progress is not None:
        seconds = f"{fault.progress.seconds:.1f}"
        parts.append(text(_PROGRESS).format(seconds=seconds, chunks=fault.progress.chunks))
    return "".join(parts)


def _mcp(fault: ProviderFault) -> Mapping[str, str]:
    """The client's own name for an MCP server, and what the gateway says of it."""
    if fault.code != FaultKind.MCP_LIST:
        return {}
    return {"server": fault.upstream.param or "", "reason": fault.message.rstrip(".")}


def _shown_reason(fault: ProviderFault) -> str | None:
    """The provider's own name for a reason, if clients may see it."""
    if fault.code == UNEXPECTED_FINISH:
        return fault.upstream.code
    return fault.code if fault.code in _SHOWN_REASONS else None


def _wider_locales(locale: str) -> Iterator[str]:
    """`zh_Hant-TW.UTF-8` → zh-hant-tw, zh-hant, zh."""
    name = locale.partition(".")[0].replace("_", "-").lower()
    while name:
        yield name
        name = name.rpartition("-")[0]


def _seconds(delay_s: float) -> str:
    """Round up to a tenth, so that no client retries too early."""
    return f"{math.ceil(delay_s * 10) / 10:.1f}".removesuffix(".0")


# Accept-Language, as RFC 9110 section 12.5.4 defines it: `zh-CN, en;q=0.8, *;q=0.1`
_LANGUAGE_RANGE = re.compile(
    r"\s*(?P<name>\*|[a-z]{1,8}(?:[-_][a-z0-9]{1,8})*)\s*"
    r"(?:;\s*q\s*=\s*(?P<quality>0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*)?",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def negotiate_locale(
    accept_language: str, default: str, others: frozenset[str] = frozenset()
) -> str:
    """Choose the available locale that an Accept-Language header prefers, else `default`.

    Available are those with texts here, and `others`.

    A range matches a locale or a wider one (zh-CN matches zh); `*` matches `default`, or another
    locale if the header excludes that (`q=0`). A malformed range is skipped; nothing fails.
    """
    ranges = list(_read_language_ranges(accept_language))
    excluded = {name for name, quality in ranges if quality == 0}
    accepted = [each for each in ranges if each[1] > 0]
    for name, _ in sorted(accepted, key=lambda each: -each[1]):
        candidates = (default, *TEXTS) if name == "*" else _wider_locales(name)
        for locale in candidates:
            if locale in excluded:
                continue
            if locale in TEXTS or locale in others or name == "*":
                return locale
    return default


def _read_language_ranges(header: str) -> Iterator[tuple[str, float]]:
    for part in header.split(","):
        found = _LANGUAGE_RANGE.fullmatch(part)
        if found is not None:
            yield found["name"].replace("_", "-").lower(), float(found["quality"] or 1)
