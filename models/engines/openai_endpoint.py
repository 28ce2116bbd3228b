"""The one way we talk to an OpenAI-compatible server: its own URL and key, nothing from the environment but proxies.

Proxies (HTTPS_PROXY, ALL_PROXY, NO_PROXY) carry https to other machines only: there they see the host's name. Plain
http goes straight to its host, since a proxy would read key and words; so does all that stays on this machine. The
certificates of SSL_CERT_FILE hold for https everywhere. `~/.netrc` is never read.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from models.interfaces import EngineError

CONNECT_TIMEOUT_S = 5.0
"""A server on this machine or network answers within milliseconds; beyond this it isn't there (chosen)."""

SILENCE_TIMEOUT_S = 60.0
"""Longest silence of a server, first token included: prefill of a long prompt on a CPU takes tens of seconds."""

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
    try:
        return await client.post(path, body=body, options={"headers": headers}, cast_to=object)
    except Exception as error:  # the SDK wraps the reset of a stale connection in several ways; all else goes on up
        if not is_stale_connection(error):
            raise
        return await client.post(path, body=body, options={"headers": headers}, cast_to=object)


def is_stale_connection(error: Exception) -> bool:
    """Return whether a kept connection turned out to be closed by the server, before it answered anything."""
    import httpx2
    import openai

    lost = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
    return isinstance(error, openai.APIConnectionError) and isinstance(error.__cause__, lost)


def as_engine_error(error: Exception, server: str) -> EngineError:
    """Return what a client may know of `error`: what happened at which server and what to do, none of its body."""
    import openai

    match error:
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return EngineError("llm_auth", f"The language model server {server} refused the API key; check the key.")
        case openai.APIStatusError() if _error_words(error) & _CONTEXT_ERRORS:
            return EngineError("llm_context_length", f"The conversation is too long for the model at {server}.")
        case openai.NotFoundError():
            return EngineError(
                "llm_http_error",
                f"The language model server {server} answered 404: check the base URL and the model name.",
            )
        case openai.APIStatusError():
            words = ", ".join(sorted(_error_words(error)))
            return EngineError(
                "llm_http_error",
                f"The language model server {server} answered {error.status_code}{f' ({words})' if words else ''}.",
            )
        case openai.APITimeoutError():
            return EngineError("llm_unreachable", f"The language model server {server} did not answer in time.")
        case openai.APIConnectionError():
            return EngineError(
                "llm_unreachable", f"The language model server {server} can't be reached; check that it runs."
            )
        case ValueError() | RecursionError():  # JSON or UTF-8 that isn't, or is nested without end
            return EngineError("llm_bad_response", f"The language model server {server} sent something unreadable.")
        case _:
            return EngineError("llm_stream_broken", f"The language model server {server} broke off its reply.")


def _error_words(error: Any) -> set[str]:
    """Return the error's machine-readable code and type, if they look like identifiers."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    body = inner if isinstance(inner, dict) else body
    words = (body.get("code"), body.get("type"))
    return {word for word in words if isinstance(word, str) and re.fullmatch(r"[A-Za-z_]{1,48}", word)}
