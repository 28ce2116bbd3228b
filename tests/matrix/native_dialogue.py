"""A client's dialogue with a full-duplex model: the served script behind real voice activity detection.

The same drivers in the same environments. What they write elsewhere they say aloud here (drivers/dialogue.py), since
such a model reads nothing once the conversation has begun. Each dialogue has a gateway of its own, so that several are
held at a time and each record is one client's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clients.bench.gateway_process import GatewayProcess
from tests.matrix.client_run import Dialogue, run_driver
from tests.matrix.environments import Environment
from tests.matrix.matrix import GatewayUnderTest, compare, left_cleanly

STEPS = ("connected", "spoken_turn", "tool", "barge_in", "typed", "cancel", "truncate", "left")
GREETED = (STEPS[0], "greeting", *STEPS[1:])

DIALOGUES_AT_A_TIME = 8
"""A dialogue is 20 s of speech and hearing and 2 to 5 s of computing: four of them leave two cores some air."""

REFUSED = "unsupported_value"
"""The code of the error for what such a model cannot do."""


@dataclass(frozen=True)
class NativeClient:
    """A client: its driver and environment, the steps that it reports, and those that it may skip with a reason.

    `hears`: transcription is on in its configuration. `refused`: the codes that its `typed` step tells. `golden`: time
    has no say in the order of its events.
    """

    driver: str
    environment: str
    steps: tuple[str, ...] = STEPS
    may_skip: frozenset[str] = frozenset()
    hears: bool = True
    refused: tuple[str, ...] = (REFUSED,)
    golden: bool = True


NATIVE_CLIENTS = {
    "livekit-realtime": NativeClient("livekit_realtime.py", "livekit", refused=(REFUSED, REFUSED)),
    "livekit-agent-session": NativeClient(
        "livekit_agent_session.py", "livekit", steps=GREETED, may_skip=frozenset({"truncate"}), refused=()
    ),
    "openai-agents-python": NativeClient("openai_agents.py", "openai-agents-python"),
    "openai-agents-js": NativeClient("openai_agents_js.mjs", "openai-agents-js"),
    "pipecat-server-turns": NativeClient(
        "pipecat_server_turns.py",
        "pipecat",
        steps=GREETED,
        may_skip=frozenset({"typed", "cancel", "truncate"}),
        hears=False,
    ),
    "openai-python": NativeClient("openai_async.py", "openai-python"),
    "openai-node": NativeClient("openai_node_ws.mjs", "openai-node"),
    "raw-websockets": NativeClient(
        "raw_websockets.py",
        "websockets",
        golden=False,  # it ends its turn by hand, while the model nods
    ),
}
"""The longest dialogues stand first, so that they begin first."""


@dataclass(frozen=True)
class NativeDialogue:
    """What a client reported, and what its gateway recorded."""

    told: Dialogue
    records: tuple[Path, ...]


def hold_native_dialogue(
    client: NativeClient, environment: Environment, speech_dir: Path, events: Path, key: str
) -> NativeDialogue:
    """Serve the model, run the driver, see it leave. Raises DriverError, or AssertionError if something is left."""
    variables = {
        "DUPLEX_GATEWAY_API_KEY": key,
        "DUPLEX_GATEWAY_CASCADE": "false",
        "DUPLEX_GATEWAY_DUPLEX": "scripted",
        "DUPLEX_GATEWAY_VAD": "silero",
        "FOREGROUND_BASE_URL": "",
    }
    with GatewayProcess(["--profile", "scripted", "--event-log", str(events)], variables) as process:
        gateway = GatewayUnderTest(process, events, key, f"{process.http_url}/v1")
        given = {**gateway.variables, "SPEECH_DIR": str(speech_dir), "FULL_DUPLEX": "1"}
        told = run_driver(environment, client.driver, given, client.steps)
        left_cleanly(gateway)
    return NativeDialogue(told, tuple(sorted(gateway.records(), key=lambda path: path.stat().st_ctime_ns)))


def check_native_dialogue(name: str, client: NativeClient, dialogue: NativeDialogue) -> None:
    """Assert what every dialogue must show; compare the record with `golden/native-<name>.txt`, if it has one."""
    told = dialogue.told
    assert set(told.skipped) <= client.may_skip, told.skipped
    facts = {step: told[step] for step in told.facts if step not in told.skipped}
    turn = facts["spoken_turn"]
    assert "I heard you." in turn["reply"]
    assert turn["audio_ms"] >= 700
    assert (turn["heard"] or "").strip() == ("These are the words of turn 1." if client.hears else "")
    tool = facts["tool"]
    assert (tool["name"], tool["arguments"]) == ("get_weather", {"city": "Paris"})
    assert "It is sunny in Paris." in tool["reply"]
    assert facts["barge_in"]["cancelled"] is True, facts["barge_in"]
    assert "You were saying?" in facts["barge_in"]["reply"]
    if "greeting" in facts:
        assert facts["greeting"]["reply"].startswith("Hello.")
    if "typed" in facts:
        assert tuple(facts["typed"]["refused"]) == client.refused
    if "cancel" in facts:
        assert facts["cancel"]["status"] == "cancelled"
    if "truncate" in facts:
        assert facts["truncate"]["ok"] is True
    if client.golden:
        compare(f"native-{name}", list(dialogue.records))
