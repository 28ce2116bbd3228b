"""Probes of the items that a client writes: into the conversation, and into the input of one response."""

from __future__ import annotations

import base64
from typing import Any

from tests.protocol.support.minimal_objects import CALL, ITEMS, MCP_SERVER, SERVER
from tests.protocol.support.obedient_backend import ObedientBackend
from tests.protocol.support.probing import ABSENT, NO_EVENT, Probe

RECORDING = base64.b64encode(bytes(48_000)).decode()
SPEECH = base64.b64encode(b"\x01\x02" * 12_000).decode()
PICTURE = "data:image/png;base64,AAAA"

HAS_NO_EFFECT = "a label: items written by a client are complete"
STATES = ("completed", "incomplete", "in_progress")
NO_AUDIO_OF_THE_AGENT = "as OpenAI: the agent's audio cannot be written, its words can (`output_text`)"
SEEN_BY_NOBODY = "items of one response are seen by nobody"
APPROVED_ELSEWHERE = "an approval is given with `conversation.item.create`"
RECORDS = "a record of what happened elsewhere; nothing is run for it"


def with_a_call(backend: ObedientBackend) -> None:
    """A function was called and waits for its result."""
    backend.send("conversation.item.create", item=ITEMS["function_call"])


def with_a_request(backend: ObedientBackend) -> None:
    """The model wanted to call an MCP server's tools, and waits for the user's approval."""
    backend.send("session.update", session={"type": "realtime", "tools": [MCP_SERVER]})
    backend.user_turn()


def result_comes(backend: ObedientBackend) -> None:
    """The result of the call comes, and the model is asked again."""
    backend.talk.send("conversation.item.create", item=ITEMS["function_call_output"])
    backend.goes_on()


def item_probes(root: str, event: str) -> list[Probe]:
    """Return the probes of items at `root`, which is `item` or `response.input[]`."""
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, f"{root}{path}", values, **details))

    own = root == "item"

    def whole(path: str, *items: dict[str, Any], **details: Any) -> None:
        """Compare items with none, in the conversation or in the input of one response."""
        if own:
            probes.append(Probe(event, f"{root}{path}", items, at="item", instead=NO_EVENT, **details))
        else:
            inputs = tuple({"input": [item]} for item in items)
            probes.append(Probe(event, f"{root}{path}", inputs, at="response", instead={"input": []}, **details))

    for role in ("system", "user", "assistant"):
        at = f"{{message {role}}}"
        text = "output_text" if role == "assistant" else "input_text"
        whole(at, ITEMS[f"message {role}"])
        add(f"{at}.content[].text", "Good morning.", instead="Good night.", beside={"type": text})
    at = "{message user}.content[]"
    whole(f"{at}.type", *(message("user", kind) for kind in ("input_text", "input_audio", "input_image")))
    heard = {"type": "input_audio"}
    add(f"{at}.audio", SPEECH, instead=RECORDING, beside=heard)
    add(f"{at}.transcript", "What I said.", instead="What she said.", beside=heard)
    add(f"{at}.image_url", PICTURE, instead=f"{PICTURE}BBBB", beside={"type": "input_image"})
    add(f"{at}.detail", "auto", "low", "high", beside={"type": "input_image", "image_url": PICTURE})
    at = "{message assistant}.content[]"
    spoken = (message("assistant", kind) for kind in ("output_text", "output_audio"))
    whole(f"{at}.type", *spoken, why=NO_AUDIO_OF_THE_AGENT)
    add(f"{at}.audio", SPEECH, beside={"type": "output_audio"}, why=NO_AUDIO_OF_THE_AGENT)
    add(f"{at}.transcript", "Hi.", beside={"type": "output_audio"}, why=NO_AUDIO_OF_THE_AGENT)

    # A call alone is nothing to a model: its result must follow it.
    after: dict[str, Any] = {"then": result_comes} if own else {"around": _with_result}
    before: dict[str, Any] = {"setup": with_a_call} if own else {"around": _with_call}
    whole("{function_call}", ITEMS["function_call"], **after)
    add("{function_call}.name", "look_up", instead="look_down", **after)
    add("{function_call}.arguments", "{}", instead='{"a": 1}', **after)
    add("{function_call}.call_id", CALL, **after)
    whole("{function_call_output}", ITEMS["function_call_output"], **before)
    add("{function_call_output}.call_id", CALL, instead=NO_EVENT if own else "call_other", **before)
    add("{function_call_output}.output", "Hot water.", instead="Cold water.", **before)
    for kind in ("message system", "message user", "message assistant", "function_call", "function_call_output"):
        details = before if kind == "function_call_output" else {}
        add(f"{{{kind}}}.id", "mine", shown=own, why=SEEN_BY_NOBODY, **details)
        add(f"{{{kind}}}.object", "realtime.item", why=HAS_NO_EFFECT, **details)
        add(f"{{{kind}}}.status", *STATES, why=HAS_NO_EFFECT, **details)
    for kind in ("list_tools", "call", "approval_request"):
        whole(f"{{mcp_{kind}}}", ITEMS[f"mcp_{kind}"], why=RECORDS)
    whole("{mcp_approval_response}", ITEMS["mcp_approval_response"], setup=with_a_request, why=APPROVED_ELSEWHERE)
    return [*probes, *_mcp_item_probes(root, event, own)]


def message(role: str, kind: str) -> dict[str, Any]:
    """Return a message with one part of a kind, in the words of either dialect."""
    wholes = {"input_image": {"image_url": PICTURE}, "item_reference": {"id": "u1"}}
    spoken = {"input_audio", "output_audio", "audio"}
    part = {"type": kind, **wholes.get(kind, {"transcript" if kind in spoken else "text": "Hi."})}
    return {"type": "message", "role": role, "content": [part]}


def _with_result(event: dict[str, Any]) -> dict[str, Any]:
    response = event["response"]
    return {**event, "response": {**response, "input": [*response["input"], ITEMS["function_call_output"]]}}


def _with_call(event: dict[str, Any]) -> dict[str, Any]:
    response = event["response"]
    return {**event, "response": {**response, "input": [ITEMS["function_call"], *response["input"]]}}


def _mcp_item_probes(root: str, event: str, own: bool) -> list[Probe]:
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        why = APPROVED_ELSEWHERE if path.startswith("approval_response") else RECORDS
        probes.append(Probe(event, f"{root}{{mcp_{path}", values, shown=own, why=why, **details))

    before: dict[str, Any] = {"setup": with_a_request}
    tool = {"name": "count", "input_schema": {"type": "object"}}
    add("list_tools}.id", "mine")
    add("list_tools}.server_label", "other", instead=SERVER)
    add("list_tools}.tools[].name", "count", instead="add", beside=tool)
    add("list_tools}.tools[].input_schema", {"type": "object"}, instead={}, beside=tool)
    add("list_tools}.tools[].description", "Counts.", beside=tool)
    add("list_tools}.tools[].annotations", {"readOnlyHint": True}, beside=tool)
    add("call}.id", "mine", instead="yours")
    for key, one, other in (
        ("arguments", "{}", '{"a": 1}'),
        ("name", "count", "add"),
        ("server_label", "other", SERVER),
        ("output", "Seven.", "Eight."),
        ("approval_request_id", "mcpr_1", ABSENT),
    ):
        add(f"call}}.{key}", one, instead=other)
    for kind in ("protocol_error", "tool_execution_error", "http_error"):
        add(f"call}}.error{{{kind}}}", {}, beside={"output": None}, instead=None)
        add(f"call}}.error{{{kind}}}.message", "Sold out.", instead="No.")
    for kind in ("protocol_error", "http_error"):
        add(f"call}}.error{{{kind}}}.code", 404, instead=500)
    for key, one, other in (("id", "mine", "yours"), ("arguments", "{}", '{"a": 1}'), ("name", "count", "add")):
        add(f"approval_request}}.{key}", one, instead=other)
    add("approval_request}.server_label", "other", instead=SERVER)
    add("approval_response}.id", "mine", instead="yours", **before)
    add("approval_response}.approval_request_id", "mcpr_1", instead="mcpr_2", **before)
    add("approval_response}.approve", True, instead=False, **before)
    add("approval_response}.reason", "Too dear.", beside={"approve": False}, **before)
    return probes
