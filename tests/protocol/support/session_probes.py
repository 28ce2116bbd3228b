"""Probes of session.update, for both kinds of session, and of what it shares with response.create."""

from __future__ import annotations

from typing import Any

from protocol.session_settings import SessionDefaults, SessionKind
from protocol.wire import Dialect
from tests.protocol.support.minimal_objects import FUNCTION, MCP_SERVER, SERVER
from tests.protocol.support.obedient_backend import ObedientBackend
from tests.protocol.support.probing import NO_EVENT, Probe

FORGETFUL = SessionDefaults(context_tokens=60)
"""A language model that holds a few sentences."""

NO_DENOISER = "audio reaches the VAD and the recogniser as it was sent; no noise reduction is built in"
ONE_LANGUAGE = "recognisers take one language, or detect it"
NO_TRACES = "nothing leaves this machine: there is no trace to write to"
NO_PROMPT_STORE = "stored prompts live at OpenAI; send `instructions`"
FROM_THE_URL = "the model is the URL's for the whole session"
NOT_ANSWERED = "a transcription session has no model that answers"

URL = "http://127.0.0.1:9/mcp"


def with_tools(backend: ObedientBackend) -> None:
    """The session has a function and an MCP server."""
    backend.send("session.update", session={"type": "realtime", "tools": [FUNCTION, MCP_SERVER]})


def input_probes(root: str, kind: SessionKind) -> list[Probe]:
    """Return the probes of `audio.input`, which both kinds of session have."""
    probes: list[Probe] = []
    at = f"{root}.audio.input"

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe("session.update", f"{at}.{path}", values, kind=kind, **details))

    probes += format_probes("session.update", f"{at}.format", kind)
    add("noise_reduction.type", "near_field", "far_field", why=NO_DENOISER)
    add("noise_reduction.strength", 0.5, beside={"type": "near_field"}, why=NO_DENOISER)
    add("transcription.model", "gpt-realtime-whisper", "whisper-1")
    add("transcription.language", "de")
    add("transcription.prompt", "tea")
    add("transcription.keywords", ["tea"])
    add("transcription.languages", ["en", "de"], why=ONE_LANGUAGE)
    delays = ("minimal", "low", "medium", "high", "xhigh")
    add("transcription.delay", *delays, why="live words come as soon as two looks agree")
    for mode in ("server_vad", "semantic_vad"):
        add(f"turn_detection{{{mode}}}", {}, instead=None)
        why = NOT_ANSWERED if kind == "transcription" else ""
        add(f"turn_detection{{{mode}}}.create_response", False, why=why)
        add(f"turn_detection{{{mode}}}.interrupt_response", False, why=why)
    add("turn_detection{server_vad}.threshold", 0.7)
    add("turn_detection{server_vad}.prefix_padding_ms", 100)
    add("turn_detection{server_vad}.silence_duration_ms", 700)
    why = NOT_ANSWERED if kind == "transcription" else ""
    add("turn_detection{server_vad}.idle_timeout_ms", 6_000, why=why)
    add("turn_detection{semantic_vad}.eagerness", "low", "medium", "high", "auto")
    return probes


def format_probes(event: str, path: str, kind: SessionKind = "realtime") -> list[Probe]:
    """Return the probes of an audio format."""
    other = {"type": "audio/pcmu"}
    return [
        Probe(event, f"{path}{{audio/pcm}}", ({},), instead=other, kind=kind),
        Probe(event, f"{path}{{audio/pcm}}.rate", (24_000,), shown=True, around=_or_mulaw, kind=kind),
        Probe(event, f"{path}{{audio/pcmu}}", ({},), kind=kind),
        Probe(event, f"{path}{{audio/pcma}}", ({},), kind=kind),
    ]


def _or_mulaw(event: Any) -> Any:
    """Make µ-law of a PCM format without its rate: only the rate tells them apart then."""
    if isinstance(event, dict):
        if event.get("type") == "audio/pcm":
            return {"rate": event["rate"]} if "rate" in event else {"type": "audio/pcmu"}
        return {key: _or_mulaw(value) for key, value in event.items()}
    return event


def tool_probes(event: str, root: str) -> list[Probe]:
    """Return the probes of tools and of the choice among them."""
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, f"{root}.{path}", values, **details))

    add("tool_choice", "none", "auto", "required")
    add("tool_choice{function}", {}, setup=with_tools)
    add("tool_choice{function}.name", "look_up", instead="look_down", setup=with_tools)
    add("tools[]{function}", {})
    add("tools[]{function}.name", "look_up", instead="look_down")
    add("tools[]{function}.description", "Looks up a word.")
    add("tools[]{function}.parameters", {"type": "object", "properties": {"word": {"type": "string"}}})
    probes += _mcp_probes(event, root)
    return probes


def _mcp_probes(event: str, root: str) -> list[Probe]:
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, f"{root}.{path}", values, **details))

    connectors = [
        "connector_dropbox",
        "connector_gmail",
        "connector_googlecalendar",
        "connector_googledrive",
        "connector_microsoftteams",
        "connector_outlookcalendar",
        "connector_outlookemail",
        "connector_sharepoint",
    ]
    hosted = "connectors and tunnels are hosted by OpenAI; give the `server_url` of an MCP server"
    add("tool_choice{mcp}", {}, setup=with_tools)
    add("tool_choice{mcp}.server_label", SERVER, instead="other", setup=with_tools)
    add("tool_choice{mcp}.name", "count", setup=with_tools)
    at = "tools[]{mcp}"
    add(at, {})
    add(f"{at}.server_label", "other", instead=SERVER)
    add(f"{at}.server_url", "http://127.0.0.1:9/other", instead=URL)
    add(f"{at}.server_description", "A shop.", why="not told to the model; its tools have their own descriptions")
    add(f"{at}.authorization", "secret")
    add(f"{at}.headers", {"X-Shop": "1"})
    add(f"{at}.allowed_tools", ["count"])
    add(f"{at}.allowed_tools.tool_names", ["count"])
    add(f"{at}.allowed_tools.read_only", True)
    add(f"{at}.allowed_callers", ["direct", "programmatic"], why="the model is the only caller here")
    add(f"{at}.require_approval", "always", "never")
    for rule in ("always", "never"):
        add(f"{at}.require_approval.{rule}.tool_names", ["count"])
        add(f"{at}.require_approval.{rule}.read_only", True)
    add(f"{at}.defer_loading", True, why="lists are read at once")
    add(f"{at}.connector_id", *connectors, why=hosted)
    add(f"{at}.tunnel_id", "tunnel_1", why=hosted)
    return probes


def _session_probes() -> list[Probe]:
    root = "session{realtime}"
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe("session.update", f"{root}{path}", values, **details))

    long: dict[str, Any] = {"defaults": FORGETFUL, "then": ObedientBackend.goes_on_for_long}
    add("", {}, instead=NO_EVENT)
    add(".instructions", "Speak like a pirate.")
    add(".output_modalities", ["text"], ["audio"])
    add(".model", "gpt-realtime-mini", why=FROM_THE_URL)
    add(".audio.output.voice", "cedar")
    add(".audio.output.voice.id", "voice_1", instead="voice_2")
    add(".audio.output.speed", 1.25)
    probes += format_probes("session.update", f"{root}.audio.output.format")
    add(".max_output_tokens", 7, "inf")
    add(".parallel_tool_calls", False)
    add(".include", ["item.input_audio_transcription.logprobs"], setup=with_transcripts)
    add(".truncation", "auto", "disabled", **long)
    add(".truncation{retention_ratio}", {"retention_ratio": 0.1}, **long)
    add(".truncation{retention_ratio}.retention_ratio", 0.1, instead=1.0, **long)
    add(".truncation{retention_ratio}.token_limits.post_instructions", 4)
    add(".reasoning.effort", "minimal", "low", "medium", "high", "xhigh")
    add(".prompt.id", "pmpt_1", instead="pmpt_2", why=NO_PROMPT_STORE)
    add(".prompt.version", "2", beside={"id": "pmpt_1"}, why=NO_PROMPT_STORE)
    add(".prompt.variables", {"name": "Ann"}, beside={"id": "pmpt_1"}, why=NO_PROMPT_STORE)
    add(".tracing", "auto", why=NO_TRACES)
    add(".tracing.workflow_name", "w", why=NO_TRACES)
    add(".tracing.group_id", "g", why=NO_TRACES)
    add(".tracing.metadata", {"a": 1}, why=NO_TRACES)
    return [*probes, *input_probes(root, "realtime"), *tool_probes("session.update", root)]


def with_transcripts(backend: ObedientBackend) -> None:
    """Transcripts are on."""
    kind, model = backend.talk.session.settings.kind, {"model": "whisper-1"}
    if backend.talk.wire.dialect is Dialect.GA:
        session = {"type": kind, "audio": {"input": {"transcription": model}}}
        backend.send("session.update", session=session)
    else:
        event = "session.update" if kind == "realtime" else "transcription_session.update"
        backend.send(event, session={"input_audio_transcription": model})


def with_logprobs(backend: ObedientBackend) -> None:
    """A transcription session tells log probabilities."""
    include = ["item.input_audio_transcription.logprobs"]
    if backend.talk.wire.dialect is Dialect.GA:
        backend.send("session.update", session={"type": "transcription", "include": include})
    else:
        backend.send("transcription_session.update", session={"include": include})


def _transcription_session_probes() -> list[Probe]:
    root = "session{transcription}"
    include = ["item.input_audio_transcription.logprobs"]
    return [
        Probe("session.update", root, ({},), instead=NO_EVENT, kind="transcription"),
        Probe("session.update", f"{root}.include", (include,), kind="transcription"),
        *input_probes(root, "transcription"),
    ]


SESSION_PROBES = [*_session_probes(), *_transcription_session_probes()]
