"""What people may read about a fault, in their language.

A text depends on the type and the code of a fault alone, so nothing an upstream wrote can get into
it: no message, no key, no address. Only a status, a delay and a code we know ourselves are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from antiphon.core.faults.fault import ProviderFault

# Reasons for blocking that may be shown: vendors' enums, which are words and not texts.
_SHOWN_REASONS = frozenset(
    """
    SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE IMAGE_SAFETY
    IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION OTHER JAILBREAK MODEL_ARMOR
    sensitive guardrail_intervened content_filtered
    """.split()
)

# Keys are a type, "type/code", or one of the pieces a text may end with.
_DELAY = "delay"
_REASON = "reason"
_STATUS = "status"

_ENGLISH: Mapping[str, str] = {
    "api_error": "The provider refused the request. The gateway's log has its reason.",
    "api_error/not_found": "The provider has nothing at this address. "
    "Check the base URL that is configured for it.",
    "api_error/redirected": "The provider's address leads elsewhere, where nobody follows. "
    "Check the base URL that is configured for it.",
    "api_error/tool_use_failed": "The model wrote a tool call that the provider could not read. "
    "Send the request again.",
    "api_error/internal_error": "The gateway failed on this request. Its log has the details.",
    "api_error/shutting_down": "The gateway is restarting. Send the request again.",
    "rate_limit": "The provider's rate limit is reached. "
    "Send fewer requests at a time, or add another key.",
    "content_blocked": "The provider's content filter blocked the request or its answer. "
    "Change the wording and send it again.",
    "timeout": "The provider took too long to answer. Send the request again.",
    "timeout/connect_timeout": "The provider could not be reached in time. "
    "Check the network, or send the request again.",
    "timeout/first_token_timeout": "The provider did not begin to answer in time. "
    "Send the request again, or choose a faster model.",
    "timeout/idle_timeout": "The provider stopped in the middle of its answer. "
    "Send the request again.",
    "timeout/total_timeout": "The answer was not finished in the time allowed for a request. "
    "Ask for less, or allow more time.",
    "provider_overloaded": "The provider is overloaded at the moment. "
    "Send the request again, or choose another model.",
    "provider_overloaded/server_error": "The provider had an internal error. "
    "Send the request again, or choose another model.",
    "provider_overloaded/bad_gateway": "A server behind the provider failed. "
    "Send the request again, or choose another model.",
    "auth": "The provider did not accept the API key. "
    "Check the key that is configured for this provider.",
    "billing": "The provider account has no credit or quota left. "
    "Top up the account, or use another key.",
    "permission": "The provider does not allow this key to make this request. "
    "Check what the account may use, or choose another model.",
    "invalid_request": "The provider did not accept the request as it is. "
    "The gateway's log has its reason.",
    "invalid_request/invalid_image": "The provider could not use an image in the request. "
    "Check its format, its size and its address.",
    "invalid_request/reasoning_rejected": "The provider did not accept the reasoning of an earlier "
    "turn. Send the request again; if that fails too, begin a new conversation.",
    "model_error": "The provider does not offer this model. "
    "Check its name, or choose another model.",
    "context_length": "The conversation is too long for this model. "
    "Shorten it, or choose a model with a larger context window.",
    "protocol": "The provider's answer broke off or could not be read. Send the request again.",
    "protocol/incomplete_tool_call": "The provider's answer ended inside a tool call. "
    "Send the request again.",
    "protocol/invalid_output_format": "The model's answer does not have the format that was asked "
    "for. Send the request again, or simplify the schema.",
    "connection": "The connection to the provider failed. "
    "Check the network and the provider's address, or send the request again.",
    "cancelled": "The request was cancelled.",
    "unknown": "The provider reported an error that the gateway does not know. "
    "Its log has the details.",
    # Codex finds the delay by these words: clients rely on them.
    _DELAY: " Please try again in {delay} s.",
    _REASON: " Reason: {code}.",
    _STATUS: " (HTTP {status})",
}

_CHINESE: Mapping[str, str] = {
    "api_error": "服务商拒绝了该请求，具体原因见网关日志。",
    "api_error/not_found": "服务商的该地址不存在，请检查为其配置的 base URL。",
    "api_error/redirected": "服务商的地址发生了重定向，网关不会跟随，请检查为其配置的 base URL。",
    "api_error/tool_use_failed": "模型生成的工具调用无法被服务商解析，请重新发送请求。",
    "api_error/internal_error": "网关处理该请求时出错，详情见网关日志。",
    "api_error/shutting_down": "网关正在重启，请重新发送请求。",
    "rate_limit": "已达到服务商的速率限制，请降低请求频率或增加其他密钥。",
    "content_blocked": "请求或回答被服务商的内容过滤拦截，请修改措辞后重新发送。",
    "timeout": "服务商响应超时，请重新发送请求。",
    "timeout/connect_timeout": "连接服务商超时，请检查网络或重新发送请求。",
    "timeout/first_token_timeout": "服务商未能及时开始回答，请重新发送请求或换用更快的模型。",
    "timeout/idle_timeout": "服务商在回答中途停止响应，请重新发送请求。",
    "timeout/total_timeout": "回答未能在允许的时间内完成，请缩小请求或延长时限。",
    "provider_overloaded": "服务商当前过载，请重新发送请求或换用其他模型。",
    "provider_overloaded/server_error": "服务商发生内部错误，请重新发送请求或换用其他模型。",
    "provider_overloaded/bad_gateway": "服务商的后端服务出错，请重新发送请求或换用其他模型。",
    "auth": "服务商不接受该 API 密钥，请检查为该服务商配置的密钥。",
    "billing": "服务商账户余额或配额已用尽，请充值或换用其他密钥。",
    "permission": "该密钥无权执行此请求，请检查账户权限或换用其他模型。",
    "invalid_request": "服务商不接受该请求，具体原因见网关日志。",
    "invalid_request/invalid_image": "服务商无法使用请求中的图片，请检查其格式、大小和地址。",
    "invalid_request/reasoning_rejected": "服务商不接受先前轮次的推理内容，请重新发送请求；"
    "若仍失败，请开始新的对话。",
    "model_error": "服务商不提供该模型，请检查模型名称或换用其他模型。",
    "context_length": "对话超出该模型的上下文长度，请缩短对话或换用上下文更长的模型。",
    "protocol": "服务商的回答中断或无法解析，请重新发送请求。",
    "protocol/incomplete_tool_call": "服务商的回答在工具调用中途结束，请重新发送请求。",
    "protocol/invalid_output_format": "模型的回答不符合要求的格式，请重新发送请求或简化 schema。",
    "connection": "无法连接服务商，请检查网络和服务商地址，或重新发送请求。",
    "cancelled": "请求已取消。",
    "unknown": "服务商报告了网关无法识别的错误，详情见网关日志。",
    _DELAY: "请在 {delay} 秒后重试 (try again in {delay} s)。",
    _REASON: "原因：{code}。",
    _STATUS: "（HTTP {status}）",
}

TEXTS: Mapping[str, Mapping[str, str]] = {"en": _ENGLISH, "zh": _CHINESE}


def describe(
    fault: ProviderFault, locale: str = "en", texts: Mapping[str, Mapping[str, str]] = TEXTS
) -> str:
    """What happened and what to do about it, in the reader's language.

    A text that a language lacks is taken from the next wider one, key by key.
    """
    languages = [texts[name] for name in _names(locale) if name in texts]

    def text(*keys: str) -> str:
        return next(found[key] for key in keys for found in languages if key in found)

    parts = [text(f"{fault.type}/{fault.code}", fault.type)]
    if fault.code in _SHOWN_REASONS:
        parts.append(text(_REASON).format(code=fault.code))
    if fault.retryable and fault.retry_after_s is not None:
        parts.append(text(_DELAY).format(delay=_seconds(fault.retry_after_s)))
    if fault.status is not None:
        parts.append(text(_STATUS).format(status=fault.status))
    return "".join(parts)


def _names(locale: str) -> Iterator[str]:
    """`zh_Hant-TW` → zh-hant-tw, zh-hant, zh, and English in the end."""
    name = locale.partition(".")[0].replace("_", "-").lower()
    while name:
        yield name
        name = name.rpartition("-")[0]
    yield "en"


def _seconds(delay_s: float) -> str:
    """Rounded up to a tenth, so that nobody comes back too early."""
    return f"{math.ceil(delay_s * 10) / 10:.1f}".removesuffix(".0")
