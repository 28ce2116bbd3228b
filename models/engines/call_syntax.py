"""How models write function calls when their server doesn't understand them: which text is a call, and what it calls.

{"name": "f", "arguments": {…}}         bare, in a ``` fence, in a list; also "parameters", and OpenAI's own shape
<tool_call>{…}</tool_call>              Qwen, Hermes; <tools>, <function_call>, <|tool_call|> and the like by others
<|python_tag|>{…}  [TOOL_CALLS][{…}]    Llama, Mistral; [TOOL_CALLS]f[ARGS]{…} since 2025
<function=f>{…}</function>              Llama; with <parameter=a>…</parameter> inside: Qwen3-Coder
[f(a=1), g()]                           Llama 3.2 and 4, LFM2; f(a=1) after a mark or in a fence: Gemma
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tools = Mapping[str, Mapping[str, Any]]
"""The functions that may be called: name → JSON schema of its parameters."""

MARKS = (
    "<tool_call>", "<tools>", "<function_call>", "<functioncall>", "<|tool_call|>", "<|tool_call_start|>",
    "<|tool_calls_section_begin|>", "<|python_tag|>", "[TOOL_CALLS]", "<function=",
)  # fmt: skip
"""What says, wherever in a reply, that a call follows. No voice would want to read one of them."""

_FUNCTION_TAG = "<function="
_FENCE = "```"
_LONGEST_LANGUAGE = 16
"""Characters of the word after a fence (chosen)."""

_FIRST_KEYS = (
    "name", "arguments", "parameters", "args", "function", "function_name", "tool", "tool_name", "tool_calls", "type",
    "id",
)  # fmt: skip
_NAME_KEYS = ("name", "function_name", "tool_name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_NAMED = re.compile(r"""["'](?:name|function_name|tool_name|tool|function)["']\s*:\s*(["'])([\w.:-]*)(\1?)""")
_TOKEN = re.compile(r"""("(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z))|([{\[(])|([}\])])""", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.-]*")
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_KEY_AND_VALUE = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `name`; `arguments`: a JSON object as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What was read may still become calls. `named`: it names a known function, so that it can't be anything else."""

    named: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """Calls, which end at character `end`. `fenced`: a closing fence is to follow."""

    calls: tuple[Call, ...]
    end: int
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A call that can't be made: not to be read, or of a function that isn't offered. Nothing that anyone would say."""


Reading = Unfinished | Written | Broken | None
"""None: no call, whatever follows."""


def read(text: str, tools: Tools) -> Reading:
    """Return what the beginning of `text` is.

    It begins with what may begin a call: a mark, a fence, a brace or a bracket. An answer other than Unfinished stays
    the same however the text goes on.
    """
    for mark in MARKS:
        if text.startswith(mark):
            if mark == _FUNCTION_TAG:
                return _tagged_function(text, 0, tools)
            return _marked(text, len(mark), tools)
    if text.startswith("["):  # a list, or a mark that isn't whole yet
        reading = _payload(text, 0, tools, marked=False)
        return Unfinished() if reading is None and _may_become_mark(text) else reading
    if text.startswith("{"):
        return _payload(text, 0, tools, marked=False)
    if text.startswith(_FENCE):
        return _fenced(text, tools)
    return Unfinished() if _FENCE.startswith(text) or _may_become_mark(text) else None


def _marked(text: str, at: int, tools: Tools) -> Reading:
    """Read what follows a mark that promises a call: JSON there is nothing else."""
    reading = _payload(text, at, tools, marked=True)
    at = _after_space(text, at)
    return Broken() if reading is None and text[at : at + 1] in ("{", "[") else reading


def _may_become_mark(text: str) -> bool:
    return any(mark.startswith(text) for mark in MARKS)


def _fenced(text: str, tools: Tools) -> Reading:
    at = len(_FENCE)
    language = re.compile(r"[A-Za-z_]*").match(text, at)
    assert language is not None
    if language.end() - at > _LONGEST_LANGUAGE:
        return None
    if language.end() == len(text):
        return Unfinished()
    start = language.end() if text[language.end()] != "(" else at  # ```f(…)```
    reading = _payload(text, start, tools, marked=True)
    return Written(reading.calls, reading.end, fenced=True) if isinstance(reading, Written) else reading


def _payload(text: str, at: int, tools: Tools, *, marked: bool) -> Reading:
    """Read what stands after a mark, or the call itself where there is no mark."""
    at = _after_space(text, at)
    if at == len(text):
        return Unfinished()
    if text[at] == "{":
        return _objects(text, at, at, tools)
    if text[at] == "[":
        first = _after_space(text, at + 1)
        if first == len(text):
            return Unfinished()
        return _objects(text, at, first, tools) if text[first] == "{" else _python_calls(text, at, first, tools)
    return _function(text, at, tools) if marked else None


def _objects(text: str, start: int, first: int, tools: Tools) -> Reading:
    """Read a JSON object at `first`, or the list at `start` whose first element it is."""
    if not _may_be_call(text, first, tools):
        return None
    end = _closing(text, start)
    named = _names_known(text[start:end], tools)
    if end is None:
        return Unfinished(named)
    if calls := _calls(_value(text[start:end]), tools):
        return Written(tuple(calls), end)
    return Broken() if named else None


def _may_be_call(text: str, at: int, tools: Tools) -> bool:
    """Return whether the object at `at` begins as calls do, as far as it is there."""
    at = _after_space(text, at + 1)
    if at == len(text):
        return True
    quote = text[at]
    if quote not in "\"'":
        return False
    key, closed, _ = text[at + 1 :].partition(quote)
    if not closed:
        return any(known.startswith(key) for known in _FIRST_KEYS)
    if key not in _FIRST_KEYS:
        return False
    named = _NAMED.match(text, at)
    if named is None or key not in _NAME_KEYS:
        return True
    return _plain(named[2]) in tools if named[3] else _begins_known(named[2], tools)


def _names_known(text: str, tools: Tools) -> bool:
    return any(found[3] and _plain(found[2]) in tools for found in _NAMED.finditer(text))


def _begins_known(beginning: str, tools: Tools) -> bool:
    names = [*tools, *(f"functions.{name}" for name in tools)]
    return any(name.startswith(beginning) for name in names)


def _plain(name: str) -> str:
    return name.removeprefix("functions.")


def _calls(value: Any, tools: Tools) -> list[Call] | None:
    """Return the calls that a JSON value stands for, None if any of it is something else."""
    if isinstance(value, list):
        found = [_calls(element, tools) for element in value]
        return None if None in found else [call for calls in found if calls for call in calls]
    if not isinstance(value, dict) or "description" in value:  # a definition of a function, repeated
        return None
    if isinstance(value.get("tool_calls"), list):
        return _calls(value["tool_calls"], tools)
    if isinstance(value.get("function"), dict):
        return _calls(value["function"], tools)
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), "")
    if _plain(name) not in tools:
        return None
    arguments: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
    if isinstance(arguments, str):
        arguments = _value(arguments) if arguments.strip() else {}
    arguments = {} if arguments is None else arguments
    return [_call(_plain(name), arguments)] if isinstance(arguments, dict) else None


def _call(name: str, arguments: Mapping[str, Any]) -> Call:
    return Call(name, json.dumps(arguments, ensure_ascii=False))


def _value(text: str) -> Any:
    """Return the value that `text` is in JSON, or as Python writes it; None if in neither."""
    try:
        return json.loads(text, strict=False)  # models write line ends inside strings
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text.strip())
            json.dumps(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return None
        return value


def _closing(text: str, start: int) -> int | None:
    """Return where the bracket at `start` is closed again, None if nowhere."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[2]:
            depth += 1
        elif token[3]:
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


# --- calls that aren't JSON ----------------------------------------------------------------------------------------


def _function(text: str, at: int, tools: Tools) -> Reading:
    """Read `f{…}`, `f[ARGS]{…}`, `f(…)`, `f <arg_key>…` or `<function=f>…`."""
    if text.startswith(_FUNCTION_TAG, at):
        return _tagged_function(text, at, tools)
    if _FUNCTION_TAG.startswith(text[at:]):
        return Unfinished()
    found = _IDENTIFIER.match(text, at)
    if found is None:
        return None
    if found.end() == len(text):
        return Unfinished() if _begins_known(found[0], tools) else None
    name = _plain(found[0])
    if name not in tools:
        return None
    rest = _after_space(text, found.end())
    if rest == len(text):
        return Unfinished(named=True)
    if text[rest] == "(":
        end = _closing(text, rest)
        return Unfinished(named=True) if end is None else _python(text[at:end], end, tools)
    if text.startswith("<arg_key>", rest) or "<arg_key>".startswith(text[rest:]):
        end = text.find("</tool_call>", rest)
        if end < 0:
            return Unfinished(named=True)
        return Written((_typed(name, _KEY_AND_VALUE.findall(text, rest, end), tools),), end)
    separator = "[ARGS]"
    if separator.startswith(text[rest : rest + len(separator)]) and len(text) - rest < len(separator):
        return Unfinished(named=True)
    if text.startswith(separator, rest):
        rest = _after_space(text, rest + len(separator))
    return _arguments(text, rest, name)


def _arguments(text: str, at: int, name: str) -> Reading:
    """Read the JSON object with the arguments of `name`."""
    if at == len(text):
        return Unfinished(named=True)
    if text[at] != "{":
        return None
    end = _closing(text, at)
    if end is None:
        return Unfinished(named=True)
    value = _value(text[at:end])
    return Written((_call(name, value),), end) if isinstance(value, dict) else Broken()


def _tagged_function(text: str, at: int, tools: Tools) -> Reading:
    """Read `<function=f>…</function>` at `at`."""
    at += len(_FUNCTION_TAG)
    closed = text.find(">", at)
    if closed < 0:
        return Unfinished() if _begins_known(text[at:], tools) else None
    name = _plain(text[at:closed].strip())
    if name not in tools:
        return None
    at = _after_space(text, closed + 1)
    if at < len(text) and text[at] == "{":
        return _arguments(text, at, name)
    end = text.find("</function>", at)
    if end < 0:
        return Unfinished(named=True)
    return Written((_typed(name, _PARAMETER.findall(text, at, end), tools),), end)


def _typed(name: str, pairs: Sequence[tuple[str, str]], tools: Tools) -> Call:
    """Return a call with arguments that were written as plain text, each as its schema wants it."""
    properties = tools[name].get("properties")
    properties = properties if isinstance(properties, dict) else {}
    arguments: dict[str, Any] = {}
    for key, text in ((key.strip(), text.strip()) for key, text in pairs):
        schema = properties.get(key)
        wanted = schema.get("type") if isinstance(schema, dict) else None
        value = None if wanted == "string" else _value(text)
        arguments[key] = text if value is None and text != "null" else value
    return _call(name, arguments)


def _python_calls(text: str, start: int, first: int, tools: Tools) -> Reading:
    """Read `[f(a=1), g()]`, the list at `start`, its first name at `first`."""
    found = _IDENTIFIER.match(text, first)
    if found is None:
        return None
    if found.end() == len(text):
        return Unfinished() if _begins_known(found[0], tools) else None
    if _plain(found[0]) not in tools or text[found.end()] != "(":
        return None
    end = _closing(text, start)
    return Unfinished(named=True) if end is None else _python(text[start:end], end, tools)


def _python(source: str, end: int, tools: Tools) -> Reading:
    """Return the calls in a Python expression, which is never run: its arguments are constants."""
    try:
        tree = ast.parse(source.strip(), mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        calls = tuple(_python_call(node, tools) for node in nodes)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return Broken()
    return Written(calls, end)


def _python_call(node: ast.expr, tools: Tools) -> Call:
    """Return one call. Raises ValueError if it is none, or none of a known function."""
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    name = _plain(ast.unparse(node.func))
    if name not in tools:
        raise ValueError("an unknown function")
    properties = tools[name].get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    arguments = {key: ast.literal_eval(value) for key, value in zip(names, node.args, strict=False)}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("arguments unpacked")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return _call(name, arguments)
