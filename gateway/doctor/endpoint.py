"""A look at an endpoint by itself, below the adapters: what answers there, and which models it has."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from models.engines.openai_endpoint import CONNECT_TIMEOUT_S, is_loopback, normal_base_url, server_name

SHOWN_MODELS = 6
_LONGEST_NAME = 80
_LONGEST_BODY = 2**20
"""Bytes of an answer that are looked at (chosen): model lists of big providers stay below."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One role's endpoint. `prefix` begins the names of its settings."""

    role: str
    prefix: str
    base_url: str
    api_key: str
    model: str

    @property
    def url_setting(self) -> str:
        """The setting that holds its URL."""
        return f"{self.prefix}_BASE_URL"

    @property
    def server(self) -> str:
        """Host and port, which is all that is ever shown of the URL."""
        return server_name(normal_base_url(self.base_url))


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back on one request. `body`: its beginning. `location`: where a redirect leads."""

    status: int
    content_type: str
    body: bytes = b""
    location: str = ""
    chunks: int = 0

    @property
    def json(self) -> Any:
        """Return the body's JSON, None if it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def is_page(self) -> bool:
        """Say whether it is a web page."""
        return "html" in self.content_type or self.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))


@dataclass(slots=True)
class Seen:
    """What is known of an endpoint after `look`."""

    findings: list[Finding] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """Whether there is any use in asking further."""
        return all(finding.verdict is not Verdict.FAIL for finding in self.findings)


@asynccontextmanager
async def http_client(endpoint: Endpoint, limit_s: float) -> AsyncIterator[Any]:
    """Open a client as the adapters do: the key for this host only, no redirects, no proxy to this machine."""
    import httpx2

    base_url = normal_base_url(endpoint.base_url)
    headers = {"User-Agent": "duplex-gateway"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    async with httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(limit_s, connect=min(limit_s, CONNECT_TIMEOUT_S)),
        follow_redirects=False,
        trust_env=not is_loopback(base_url),
    ) as client:
        yield client


async def ask(endpoint: Endpoint, method: str, path: str, limit_s: float, **request: Any) -> Answer:
    """Return what the endpoint answers; `path` beginning with // is one of the server, not below the base URL.

    Raises what the HTTP client raises.
    """
    base_url = normal_base_url(endpoint.base_url)
    url = _origin(base_url) + path[1:] if path.startswith("//") else base_url + path
    async with http_client(endpoint, limit_s) as client, client.stream(method, url, **request) as response:
        body, chunks = b"", 0
        async for chunk in response.aiter_bytes():
            body += chunk
            chunks += 1
            if len(body) > _LONGEST_BODY:
                break
        headers = response.headers
        content_type = headers.get("content-type", "").lower()
        return Answer(response.status_code, content_type, body, headers.get("location", ""), chunks)


async def look(endpoint: Endpoint, limit_s: float) -> Seen:
    """Return whether the server answers, takes the key and knows the model."""
    seen = Seen()
    try:
        answer = await ask(endpoint, "GET", "/models", limit_s)
    except Exception as error:  # every way in which a connection can fail; each becomes a sentence
        seen.findings.append(unreachable(error, endpoint).of(endpoint.role, "reachable"))
        return seen
    wrong = refusal(answer, endpoint)
    if wrong is not None:
        seen.findings.append(wrong.of(endpoint.role, "reachable"))
        return seen
    seen.findings.append(sound(endpoint.role, "reachable", endpoint.server))
    listed = answer.json if answer.status == 200 else None
    data = listed.get("data") if isinstance(listed, dict) else None
    if isinstance(data, list):
        seen.models = [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
        seen.findings.append(_known(endpoint, seen.models))
    return seen


def _known(endpoint: Endpoint, models: list[dict[str, Any]]) -> Finding:
    names = [shown(str(entry["id"])) for entry in models]
    setting = f"{endpoint.prefix}_MODEL"
    if any(entry.get("owned_by") == "duplex-gateway" for entry in models):
        return Diagnosis(
            f"{endpoint.server} is a duplex-gateway itself",
            f"give a model server's address in {endpoint.url_setting}.",
        ).of(endpoint.role, "model")
    if not names:
        return Diagnosis(f"{endpoint.server} lists no model", "load a model on that server.", Verdict.WARN).of(
            endpoint.role, "model"
        )
    listed = ", ".join(names[:SHOWN_MODELS]) + (f" and {more} more" if (more := len(names) - SHOWN_MODELS) > 0 else "")
    if not endpoint.model:
        return sound(endpoint.role, "model", f"{listed}; {setting} chooses among them")
    wanted = endpoint.model.removesuffix(":latest")
    if not any(str(entry["id"]).removesuffix(":latest") == wanted for entry in models):
        return Diagnosis(
            f"{endpoint.server} does not list {shown(endpoint.model)}, but {listed}",
            f"set {setting} to one that it lists, unless it loads models when they are asked for.",
            Verdict.WARN,
        ).of(endpoint.role, "model")
    return sound(endpoint.role, "model", shown(endpoint.model))


def shown(name: str) -> str:
    """Return a server's word as the console may show it."""
    return "".join(character for character in name if character.isprintable())[:_LONGEST_NAME]


def refusal(answer: Answer, endpoint: Endpoint) -> Diagnosis | None:
    """Return what is wrong with an answer by its status and kind; None for nothing, or a path that isn't served."""
    server, setting = endpoint.server, endpoint.url_setting
    if answer.is_page and answer.status not in (401, 403, 429) and answer.status < 500:
        return Diagnosis(
            f"{server} answers with a web page",
            f"give the address of the API in {setting}; it usually ends in /v1.",
        )
    match answer.status:
        case 401 | 403:
            given = "refuses the key" if endpoint.api_key else "wants a key"
            return Diagnosis(f"{server} {given} ({answer.status})", f"set {endpoint.prefix}_API_KEY to its key.")
        case 301 | 302 | 303 | 307 | 308:
            return Diagnosis(
                f"{server} redirects to {_address(answer.location)}",
                f"give that address in {setting}: redirects are not followed, since the key stays with its host.",
            )
        case 429:
            return Diagnosis(
                f"{server} refuses for too many requests (429)", "wait, or raise the quota at that provider."
            )
        case 503:
            return Diagnosis(
                f"{server} is not ready (503)", "wait until it has loaded its model, then run doctor again."
            )
        case status if status >= 500:
            return Diagnosis(f"{server} fails by itself ({status})", "look into that server's log.")
        case _:
            return None


def unreachable(error: BaseException, endpoint: Endpoint) -> Diagnosis:
    """Return why a connection failed, as exactly as the error's causes tell."""
    import httpx2

    causes = list(_causes(error))
    server, setting = endpoint.server, endpoint.url_setting
    host = urlsplit(normal_base_url(endpoint.base_url)).hostname

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    def says(words: str) -> bool:
        return any(words in str(cause) for cause in causes)

    if has(ssl.SSLCertVerificationError) or says("CERTIFICATE_VERIFY_FAILED"):
        advice = "set SSL_CERT_FILE to the authority that signed it (PEM)."
        if is_loopback(normal_base_url(endpoint.base_url)):
            advice = f"use http:// in {setting}: nothing is gained by TLS on this machine."
        return Diagnosis(f"the certificate of {server} is not trusted", advice)
    if has(ssl.SSLError) or says("SSL"):
        return Diagnosis(f"{server} does not speak TLS", f"use http:// instead of https:// in {setting}.")
    if has(socket.gaierror) or says("Name or service not known") or says("nodename nor servname"):
        return Diagnosis(f"the name {host} is not known", f"correct the host in {setting}.")
    if has(TimeoutError, httpx2.TimeoutException):
        return Diagnosis(f"{server} does not answer in time", f"check that it runs and that {setting} is its address.")
    if has(httpx2.ConnectError, ConnectionRefusedError):
        return Diagnosis(f"nothing listens at {server}", f"start the server there, or correct {setting}.")
    return Diagnosis(
        f"{server} breaks the connection", f"look into its log; does it speak HTTP at the port in {setting}?"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [inner for inner in (cause.__cause__, cause.__context__) if inner is not None]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions


def _origin(base_url: str) -> str:
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"


def _address(location: str) -> str:
    """Return a redirect's target without what may be secret in it."""
    parts = urlsplit(location)
    host = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "") if parts.hostname else ""
    return shown(host + parts.path) or "nowhere"
