"""Why a chat request failed, in one sentence, and the one thing to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.doctor.chat_stream import RawReply, raw_reply
from gateway.doctor.endpoint import Answer, Endpoint, refusal, shown, unreachable
from gateway.doctor.findings import Diagnosis, Verdict
from gateway.settings import Settings
from models.interfaces import EngineError


class Late(Exception):
    """A reply did not come in time: not even its first token, or the next one."""

    def __init__(self, first: bool) -> None:
        super().__init__(first)
        self.first = first


async def diagnosed(
    error: EngineError | Late, endpoint: Endpoint | None, body: Mapping[str, Any], settings: Settings
) -> Diagnosis:
    """Return why a reply failed; `body` is the request, which may be sent again for a closer look."""
    if isinstance(error, Late):
        if error.first:
            return Diagnosis(
                f"no token within {settings.llm_first_token_timeout_s:g} s",
                "take a smaller model or a faster machine, or raise DUPLEX_GATEWAY_LLM_FIRST_TOKEN_TIMEOUT_S.",
            )
        return Diagnosis(
            f"the reply stalls: no next token within {settings.llm_next_token_timeout_s:g} s",
            "look into that server's log: it is overloaded, or a proxy in front of it holds the stream.",
        )
    if endpoint is None:
        return Diagnosis(error.message, "run it with --log-level debug and report what you see.")
    cause = error.__cause__
    if (status := getattr(cause, "status_code", None)) is not None:
        return _refused(status, cause, error, endpoint)
    if error.code == "llm_unreachable":
        return unreachable(error, endpoint)
    raw = await raw_reply(endpoint, body, settings.llm_first_token_timeout_s)
    return _of_the_stream(raw, endpoint, error)


def _refused(status: int, cause: Any, error: EngineError, endpoint: Endpoint) -> Diagnosis:
    response = getattr(cause, "response", None)
    headers = {} if response is None else response.headers
    answer = Answer(status, headers.get("content-type", ""), b"", headers.get("location", ""))
    if (known := refusal(answer, endpoint)) is not None:
        return known
    if error.code == "llm_context_length":
        return Diagnosis(
            "its context is too small for two sentences",
            "start the server with a larger context (llama.cpp: -c 8192, vLLM: --max-model-len 8192).",
        )
    if status in (404, 405):
        name = shown(endpoint.model) or "the model"
        return Diagnosis(
            f"{endpoint.server} answers {status} to a chat request for {name}",
            f"set {endpoint.prefix}_MODEL to a chat model it has; {endpoint.url_setting} usually ends in /v1.",
        )
    return Diagnosis(
        f"{endpoint.server} refuses a plain chat request ({status})",
        f"look into its log; try without {endpoint.prefix}_EXTRA_BODY and {endpoint.prefix}_THINKING.",
    )


def _of_the_stream(raw: RawReply, endpoint: Endpoint, error: EngineError) -> Diagnosis:
    server = endpoint.server
    log = "look into that server's log."
    if raw.page or "html" in raw.content_type:
        return Diagnosis(
            f"{server} answers a chat request with a web page",
            f"give the address of the API in {endpoint.url_setting}; it usually ends in /v1.",
        )
    if raw.error:
        return Diagnosis(f"{server} sends an error in the middle of its stream", log)
    if raw.broken:
        return Diagnosis(f"{server} sends broken JSON in its stream", "update that server, or what stands before it.")
    if error.code == "llm_stream_broken":
        return Diagnosis(f"{server} breaks off its reply", f"{log[:-1]}: it may have died, or a proxy's limit was hit.")
    return Diagnosis(f"{server} ends its stream without a reply", log)


async def one_piece(
    endpoint: Endpoint | None, body: Mapping[str, Any], took_ms: float, settings: Settings
) -> Diagnosis:
    """Return why a reply comes all at once."""
    if endpoint is not None:
        raw = await raw_reply(endpoint, body, settings.llm_first_token_timeout_s)
        if raw.whole and not raw.events:
            return Diagnosis(
                f"{endpoint.server} does not stream: all of the reply comes in one JSON object after {took_ms:.0f} ms",
                "switch streaming on there, or take a server that streams: replies are heard late.",
                Verdict.WARN,
            )
    return Diagnosis(
        f"the reply comes in one piece after {took_ms:.0f} ms",
        "switch off what buffers in front of that server (a proxy's buffering), or its own streaming is off.",
        Verdict.WARN,
    )
