"""The language model's examination: does it stream, how soon, does it think aloud, does it call functions?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from gateway.backends.engine_work import pieces_of
from gateway.doctor.chat_diagnosis import Late, diagnosed, one_piece
from gateway.doctor.endpoint import Endpoint, Seen, ask, look
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.settings import Settings
from models.engine_plan import ChatPlan
from models.interfaces import ChatAlive, ChatEnd, ChatModel, ChatRequest, ChatText, ChatToolCall, EngineError

ROLE = "foreground"

SLOW_FIRST_TOKEN_MS = 1_500.0
"""From here on a first token is worth a warning (chosen: with all other stages the answer then takes over two seconds,
beyond which callers speak again)."""

LONGEST_REPLY_S = 60.0
"""A reply is judged by what has come by then (chosen: servers that know no limit of tokens may go on for ever)."""

PROBE_S = 5.0
"""Longest wait for what a server says about itself (chosen)."""

_COUNTING = ChatRequest(
    (
        {"role": "system", "content": "You are a voice agent. Answer briefly, in plain words."},
        {"role": "user", "content": "Please count from one to twelve in words."},
    ),
    max_output_tokens=96,
    session_key="doctor",
)
_SHORT_REPLY = 24
"""Characters of a reply that may well come in one piece."""

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_stock",
        "description": "Tells how many pieces of a product are in stock.",
        "parameters": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
    },
}
_ASKING_A_TOOL = ChatRequest(
    (
        {"role": "system", "content": "You are a voice agent in a shop. Use the tools to answer."},
        {"role": "user", "content": "How many pieces of the product with SKU A17 are in stock? Look it up."},
    ),
    tools=(_TOOL,),
    max_output_tokens=96,
    session_key="doctor",
)


@dataclass(slots=True)
class Streamed:
    """A reply as a session gets it. `thoughts`: characters that are not said; `calls`: name and arguments of each."""

    pieces: int = 0
    text: str = ""
    thoughts: int = 0
    calls: dict[int, list[str]] = field(default_factory=dict)
    first_token_ms: float = 0.0
    took_ms: float = 0.0
    finish_reason: str = ""


async def examine_foreground(
    chat: ChatModel, plan: ChatPlan, endpoint: Endpoint | None, settings: Settings
) -> AsyncIterator[Finding]:
    """Yield what is found about the language model; `endpoint` None: it runs in this process."""
    seen = Seen()
    if endpoint is not None:
        seen = await look(endpoint, PROBE_S)
        for finding in seen.findings:
            yield finding
        if not seen.alive:
            return
    try:
        reply = await streamed(chat, _COUNTING, settings)
    except (EngineError, Late) as error:
        yield (await diagnosed(error, endpoint, settings)).of(ROLE, "streams")
        return
    streaming = await _streams(reply, endpoint, settings)
    yield streaming
    if streaming.verdict is Verdict.FAIL:
        return
    if endpoint is not None:
        yield _thinking(reply, plan, endpoint)
        if (context := await _context(endpoint, seen, settings)) is not None:
            yield context
    if plan.engine == "scripted":
        yield sound(ROLE, "tools", "not asked: it says what its script says")
    else:
        yield await _tools(chat, endpoint, settings)


async def streamed(chat: ChatModel, request: ChatRequest, settings: Settings) -> Streamed:
    """Return a reply under a session's own deadlines. Raises EngineError and Late."""
    reply = Streamed()
    began_s = time.perf_counter()
    limit_s = settings.llm_first_token_timeout_s
    async with aclosing(pieces_of(chat.stream(request))) as events:
        while True:
            try:
                async with asyncio.timeout(limit_s):
                    event = await anext(events)
            except StopAsyncIteration:
                break
            except TimeoutError as late:
                raise Late(first=not reply.pieces and not reply.calls) from late
            now_ms = (time.perf_counter() - began_s) * 1000
            match event:
                case ChatText(text=text):
                    reply.pieces += 1
                    reply.text += text
                case ChatToolCall(index=index, name=name, arguments=arguments):
                    call = reply.calls.setdefault(index, [name or "", ""])
                    call[1] += arguments
                case ChatAlive(characters=characters):
                    reply.thoughts += characters
                case ChatEnd(finish_reason=reason):
                    reply.finish_reason = reason
            limit_s = settings.llm_next_token_timeout_s  # thoughts are signs of life, too
            if reply.pieces or reply.calls:
                reply.first_token_ms = reply.first_token_ms or now_ms
            reply.took_ms = now_ms
            if now_ms > LONGEST_REPLY_S * 1000:
                break
    return reply


async def _streams(reply: Streamed, endpoint: Endpoint | None, settings: Settings) -> Finding:
    check = "streams"
    figures = {"first_token_ms": reply.first_token_ms, "pieces": float(reply.pieces), "took_ms": reply.took_ms}
    if reply.finish_reason == "content_filter":
        return Diagnosis(
            "its content filter stops an innocent reply", "relax the filter of that server, or take another model."
        ).of(ROLE, check, **figures)
    if not reply.text.strip() and reply.thoughts:
        return Diagnosis(
            f"it thinks, and has said nothing when its {_COUNTING.max_output_tokens} tokens are over",
            "set FOREGROUND_THINKING=off, or take a model that does not think.",
            Verdict.WARN,
        ).of(ROLE, check, **figures)
    if not reply.text.strip():
        return Diagnosis(
            "its reply is empty", "take another model, or raise its token limit: it may think until it may not speak."
        ).of(ROLE, check, **figures)
    if reply.pieces < 2 and len(reply.text) > _SHORT_REPLY:
        return (await one_piece(endpoint, reply.took_ms, settings)).of(ROLE, check, **figures)
    said = f"first token after {reply.first_token_ms:.0f} ms, {reply.pieces} pieces in {reply.took_ms:.0f} ms"
    if reply.first_token_ms > SLOW_FIRST_TOKEN_MS:
        return Diagnosis(
            f"{said}: callers will speak again meanwhile",
            "take a smaller model or a faster machine, and switch thinking and other load off.",
            Verdict.WARN,
        ).of(ROLE, check, **figures)
    return sound(ROLE, check, said, **figures)


def _thinking(reply: Streamed, plan: ChatPlan, endpoint: Endpoint) -> Finding:
    if not reply.thoughts:
        return sound(ROLE, "thinking", "it speaks without thinking first")
    return Diagnosis(
        f"it thinks for {reply.thoughts} characters before it speaks",
        f"set {endpoint.prefix}_THINKING=off."
        if plan.thinking == "unchanged"
        else f"{endpoint.prefix}_THINKING={plan.thinking} does not stop it: try another value, or another model.",
        Verdict.WARN,
    ).of(ROLE, "thinking", thought_characters=float(reply.thoughts))


async def _context(endpoint: Endpoint, seen: Seen, settings: Settings) -> Finding | None:
    """Compare what fits with what sessions will send; None where the server tells nothing of it."""
    tokens = await _context_tokens(endpoint, seen)
    if tokens is None:
        return None
    wanted = settings.foreground_context_tokens
    if tokens < wanted:
        return Diagnosis(
            f"{tokens} tokens fit, but sessions send up to {wanted}",
            f"set {endpoint.prefix}_CONTEXT_TOKENS to at most {max(256, tokens * 7 // 8)}, or enlarge the server's.",
            Verdict.WARN,
        ).of(ROLE, "context", context_tokens=float(tokens))
    return sound(ROLE, "context", f"{tokens} tokens", context_tokens=float(tokens))


async def _context_tokens(endpoint: Endpoint, seen: Seen) -> int | None:
    """Return the tokens of one conversation, as vLLM, LM Studio and llama.cpp tell them; None: it isn't told."""
    chosen = [entry for entry in seen.models if not endpoint.model or entry["id"] == endpoint.model]
    for entry in chosen[:1]:
        for name in ("max_model_len", "context_length", "max_context_length"):
            if isinstance(entry.get(name), int) and entry[name] > 0:
                return int(entry[name])
    try:
        answer = await ask(endpoint, "GET", "//props", PROBE_S)
    except Exception:  # however it fails: only llama.cpp has this page
        return None
    properties = answer.json if answer.status == 200 else None
    defaults = properties.get("default_generation_settings") if isinstance(properties, dict) else None
    tokens = defaults.get("n_ctx") if isinstance(defaults, dict) else None
    return tokens if isinstance(tokens, int) and tokens > 0 else None


async def _tools(chat: ChatModel, endpoint: Endpoint | None, settings: Settings) -> Finding:
    check = "tools"
    try:
        reply = await streamed(chat, _ASKING_A_TOOL, settings)
    except (EngineError, Late) as error:
        status = getattr(error.__cause__, "status_code", None)
        if endpoint is not None and status in (400, 404, 422, 500, 501):
            return Diagnosis(
                f"{endpoint.server} refuses functions ({status})",
                "start llama.cpp with --jinja, vLLM with --enable-auto-tool-choice and a --tool-call-parser.",
                Verdict.WARN,
            ).of(ROLE, check)
        diagnosis = await diagnosed(error, endpoint, settings)
        return Diagnosis(f"with functions: {diagnosis.detail}", diagnosis.advice, Verdict.WARN).of(ROLE, check)
    if reply.calls:
        name, arguments = next(iter(reply.calls.values()))
        if name == "get_stock" and _is_object(arguments):
            return sound(ROLE, check, "it calls functions")
        return Diagnosis(
            "its function call is malformed", "take a model that was trained to call functions.", Verdict.WARN
        ).of(ROLE, check)
    if "get_stock" in reply.text:
        return Diagnosis(
            "it writes the function call as text",
            "start llama.cpp with --jinja, vLLM with the model's own --tool-call-parser.",
            Verdict.WARN,
        ).of(ROLE, check)
    advice = "take a model that calls functions, if your agents need them."
    if endpoint is None:
        advice = "set FOREGROUND_BASE_URL to a model that does, if your agents need them."
    return Diagnosis("it answers in words and calls no function", advice, Verdict.WARN).of(ROLE, check)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False
