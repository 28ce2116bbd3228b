"""The one way we talk to an OpenAI-compatible server: its own URL and key, nothing from the environment but proxies.

Proxies (HTTPS_PROXY, ALL_PROXY, NO_PROXY) carry https to other machines only: there they see the host's name. Plain
http goes straight to its host, since a proxy would read key and words; so does all that stays on this machine. The
certificates of SSL_CERT_FILE hold for https everywhere. `~/.netrc` is never read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from models.interfaces import EngineError

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
"""A server on this machine or network answers within milliseconds; beyond this it isn't there (chosen)."""

SILENCE_TIMEOUT_S = 60.0
"""Longest silence of a server, first token included: prefill of a long prompt on a CPU takes tens of seconds."""

LISTING_TIMEOUT_S = 5.0
"""How long a server may take to list its models (chosen: it answers from memory)."""

ANY_MODEL = "default"
"""What a server without a list of models is asked for: those that serve one model take any name."""

_LONGEST_REFUSAL = 4_000

_TOO_LONG = re.compile(
    r"context (?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens|token limit", re.I
)
_UNKNOWN_MODEL = re.compile(r"\bmodel\b[^.]{0,120}\b(?:not found|not exist|unknown|not available)", re.I)
_NO_CHAT = re.compile(r"embed|rerank|whisper|\btts\b|kokoro|transcri|moderation", re.I)
"""In the names of models that don't chat (chosen)."""

_CONTEXT_ERRORS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
"""OpenAI's and vLLM's code, and llama.cpp's type, for a prompt that is too long."""


def normal_base_url(base_url: str) -> str:
    """Return `base_url` without a trailing slash, and with the usual `/v1` if it has no path at all."""
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http(s) URL: {base_url!r}; give something like http://localhost:8000/v1")
    path = parts.path.rstrip("/") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def server_name(base_url: str) -> str:
    """Return host and port of `base_url`: what messages may say about a server."""
    parts = urlsplit(base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def is_loopback(base_url: str) -> bool:
    """Return whether `base_url` points to this machine by name or address."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761: these never leave the machine
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def authorization(api_key: str) -> dict[str, Any]:
    """Return the header that each request must carry: the key, or with "" the SDK's sign for none."""
    from openai import Omit

    return {"Authorization": f"Bearer {api_key}" if api_key else Omit()}


def open_client(base_url: str, api_key: str) -> Any:
    """Return an `openai.AsyncOpenAI` that sends `api_key` to `base_url` and to nobody else.

    No `OPENAI_*` variable has an effect: organisation, project, admin key and URL are given, and the headers are ours
    alone, so that OPENAI_CUSTOM_HEADERS is left out. Redirects aren't followed, nothing is retried.
    """
    from httpx2 import Limits, create_ssl_context
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

    class Client(AsyncOpenAI):
        @property
        def default_headers(self) -> dict[str, Any]:
            return {
                "Accept": "application/json",
                "Content-Type": "application/json",
                "User-Agent": "duplex-gateway",
            }

    timeout = Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    secure = urlsplit(base_url).scheme == "https"
    return Client(
        base_url=base_url,
        api_key=api_key or "none",  # the SDK insists on one; `authorization` decides what is sent
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        max_retries=0,
        timeout=timeout,
        http_client=DefaultAsyncHttpxClient(
            base_url=base_url,
            timeout=timeout,
            # A new connection to this machine costs nothing; an old one may be closed by the server just then.
            limits=Limits(max_keepalive_connections=0 if is_loopback(base_url) else None),
            follow_redirects=False,
            verify=create_ssl_context() if secure else True,  # of the environment even where its proxies aren't asked
            trust_env=secure and not is_loopback(base_url),
        ),
    )


async def post_json(client: Any, path: str, body: dict[str, Any], headers: dict[str, Any]) -> Any:
    """Return the JSON that `client` is answered; raises the SDK's and JSON's errors. A stale connection is replaced."""
    return await on_a_live_connection(
        lambda: client.post(path, body=body, options={"headers": headers}, cast_to=object)
    )


async def on_a_live_connection(send: Callable[[], Awaitable[T]]) -> T:
    """Return what `send` returns, which is called once more if a kept connection turns out to be closed."""
    try:
        return await send()
    except Exception as error:  # the SDK wraps the reset of a stale connection in several ways; all else goes on up
        if not is_stale_connection(error):
            raise
        return await send()


def is_stale_connection(error: Exception) -> bool:
    """Return whether a kept connection turned out to be closed by the server, before it answered anything."""
    import httpx2
    import openai

    lost = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
    return isinstance(error, openai.APIConnectionError) and isinstance(error.__cause__, lost)


async def first_model(client: Any, headers: dict[str, Any], server: str) -> str:
    """Return the first model that `server` lists, but for those that surely can't chat; ANY_MODEL if it has no list.

    Raises EngineError: llm_model_not_found where it lists none, or what its failure is called (`as_engine_error`).
    """
    import openai

    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            listing = await client.get("/models", options={"headers": headers}, cast_to=object)
    except TimeoutError as error:
        raise EngineError("llm_unreachable", f"The language model server {server} did not answer in time.") from error
    except openai.NotFoundError:
        return ANY_MODEL
    except Exception as error:  # the SDK's, JSON's and the network's: one sentence for whoever asked
        raise as_engine_error(error, server) from error
    models = listing.get("data") if isinstance(listing, dict) else None
    names = [
        model["id"]
        for model in (models if isinstance(models, list) else ())
        if isinstance(model, dict) and isinstance(model.get("id"), str) and not _NO_CHAT.search(model["id"])
    ]
    if not names:
        raise EngineError(
            "llm_model_not_found", f"The language model server {server} lists no model: name the one to be asked for."
        )
    return str(names[0])


def as_engine_error(error: Exception, server: str, *, role: str = "language model", prefix: str = "llm") -> EngineError:
    """Return what a client may know of `error`: what happened at which server and what to do, none of its body.

    `role`: what the server is for; `prefix` begins the codes: auth, rate_limit, context_length, model_not_found,
    http_error, tls, unreachable, bad_response, stream_broken.
    """
    import openai

    def fault(code: str, what: str) -> EngineError:
        return EngineError(f"{prefix}_{code}", f"The {role} server {server} {what}")

    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return fault("auth", "refused the API key; check the key.")
        case openai.APIStatusError() if is_too_long(error):
            return EngineError(f"{prefix}_context_length", f"The conversation is too long for the model at {server}.")
        case openai.APIStatusError() if is_unknown_model(error):
            return fault("model_not_found", "doesn't have the model that it is asked for; check the model name.")
        case openai.APIStatusError():
            code = "rate_limit" if error.status_code == 429 else "http_error"
            words = ", ".join(sorted(_error_words(error)))
            return fault(code, f"answered {error.status_code}{f' ({words})' if words else ''}{_advice(error)}.")
        case openai.APITimeoutError():
            return fault("unreachable", "did not answer in time.")
        case openai.APIConnectionError():
            return _connection_fault(error, fault)
        case openai.APIError() if is_too_long(error):
            return EngineError(f"{prefix}_context_length", f"The conversation is too long for the model at {server}.")
        case openai.APIError():  # in the middle of a stream that had begun well
            words = ", ".join(sorted(_error_words(error)))
            return fault("stream_broken", f"broke off its reply with an error{f' ({words})' if words else ''}.")
        case ValueError() | RecursionError():  # JSON or UTF-8 that isn't, or is nested without end
            return fault("bad_response", "sent something unreadable.")
        case _:
            return fault("stream_broken", "broke off its reply.")


def _advice(error: Any) -> str:
    """Return what to do about an HTTP status."""
    status: int = error.status_code
    match status:
        case 404:
            return ": check the base URL and the model name"
        case 429:
            return ": it takes no more requests for now; wait, or raise its limit"
        case 503:
            return ": it is overloaded, or still loading its model"
        case _ if 300 <= status < 400:
            return ", a redirect, which isn't followed so that the key goes nowhere else; give its final address"
        case _ if status >= 500:
            return ", a failure of its own; its log says more"
        case _:
            return ""


def _connection_fault(error: Exception, fault: Callable[[str, str], EngineError]) -> EngineError:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return fault(
                "tls",
                f"has a certificate that isn't trusted ({cause.verify_message}); "
                "point SSL_CERT_FILE to the authority that signed it.",
            )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return fault("tls", "does not speak TLS as expected; if it speaks plain HTTP its URL begins with http://.")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return fault("unreachable", "can't be reached; its name is unknown, check the base URL.")
    return fault("unreachable", "can't be reached; check that it runs.")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and what led to it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_too_long(error: Any) -> bool:
    """Return whether a server says that the prompt is too long: by a code, or, as vLLM and LM Studio, in words only."""
    return bool(_error_words(error) & _CONTEXT_ERRORS) or bool(_TOO_LONG.search(refusal_words(error)))


def is_unknown_model(error: Any) -> bool:
    """Return whether a server says that it doesn't have the model."""
    if error.status_code not in (400, 404):
        return False
    return "model_not_found" in _error_words(error) or bool(_UNKNOWN_MODEL.search(refusal_words(error)))


def refusal_words(error: Any) -> str:
    """Return the beginning of what a server says about an error. To look for known words; nobody is shown it."""
    return str(error.body if error.body is not None else error.message)[:_LONGEST_REFUSAL]


def _error_words(error: Any) -> set[str]:
    """Return the error's machine-readable code and type, if they look like identifiers."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    body = inner if isinstance(inner, dict) else body
    words = (body.get("code"), body.get("type"))
    return {word for word in words if isinstance(word, str) and re.fullmatch(r"[A-Za-z_]{1,48}", word)}
