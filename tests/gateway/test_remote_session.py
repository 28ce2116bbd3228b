"""Gateway → remote → gateway: what a client of the first is told is what the second says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from gateway.backends import remote as remote_module
from gateway.settings import Remote
from protocol.beta.wire_law import BetaSessionLaw
from tests.gateway.conftest import Gateway, Serve
from tests.gateway.relayed import Talker, line_to, story, talking
from tests.gateway.scripted_cascade import quiet, voice

BETA = {"OpenAI-Beta": "realtime=v1"}
REPLY = "One two three. Four five six."


def remote(port: int, name: str = "mac", **others: Any) -> Remote:
    return Remote(name, f"http://127.0.0.1:{port}/v1", **others)


def by_remote(port: int, **others: Any) -> dict[str, Any]:
    return {"whole": True, "profile": "scripted", "remotes": (remote(port, **others),)}


async def a_conversation(talker: Talker) -> None:
    """Settings, speech, typing, a question by hand, a cancel of nothing, mistakes."""
    await talker.send("session.update", session={"type": "realtime", "instructions": "Be brief.", "tools": []})
    await talker.until("session.updated")
    await talker.turn()
    await talker.types("And now?", item_id="item_of_the_client")
    await talker.until("conversation.item.done")
    await talker.send("response.create", response={"metadata": {"topic": "now"}})
    await talker.until("response.done")
    for kind, fields in (
        ("response.cancel", {"event_id": "event_7"}),
        ("conversation.item.retrieve", {"item_id": "item_of_the_client"}),
        ("conversation.item.delete", {"item_id": "item_unknown", "event_id": "event_8"}),
        ("input_audio_buffer.append", {"audio": "no base64!", "event_id": "event_9"}),
        ("session.update", {"session": {"type": "realtime", "audio": {"output": {"speed": 9}}}}),
        ("no.such.event", {}),
    ):
        await talker.send(kind, **fields)
        await talker.until("error", "conversation.item.retrieved")


async def test_the_events_of_a_relayed_cascade_are_those_of_the_cascade_itself(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted", scripted_reply=REPLY) as upstream,
        serve(**by_remote(upstream.port, model="cascade")) as gateway,
    ):
        stories = []
        for url in (upstream.url("?model=cascade"), gateway.url("?model=mac")):
            async with talking(url) as talker:
                await a_conversation(talker)
            stories.append(story(talker.events))
    assert stories[0] == stories[1]
    assert [event["error"]["event_id"] for event in talker.events if event["type"] == "error"] == [
        "event_7",
        "event_8",
        "event_9",
        None,
        None,
    ]


async def test_the_events_of_a_relayed_full_duplex_model_are_those_of_the_model_itself(serve: Serve) -> None:
    """The model listens in frames of its own clock, so that times and the silence behind its voice may differ."""
    async with (
        serve(whole=True, profile="scripted", cascade=False) as upstream,
        serve(whole=True, profile="scripted", duplex_base_url=f"ws://127.0.0.1:{upstream.port}") as gateway,
    ):

        async def talk(url: str) -> list[str]:
            async with talking(url) as talker:
                await talker.says(quiet(300), voice(900), quiet(2_400), pace=0.1)
                await talker.until("response.done")
                return [kind for kind, _ in story(talker.events)] + [talker.events[-1]["response"]["status"]]

        direct, relayed = await asyncio.gather(talk(upstream.url()), talk(gateway.url("?model=duplex")))
    assert direct == relayed
    assert relayed.count("response.output_audio_transcript.done") == 1


# --- the server is lost --------------------------------------------------------------------------------------------


async def restored(gateway: Gateway, session_id: str) -> None:
    """Wait until an observer is told that the server is back."""
    async with httpx2.AsyncClient(timeout=20) as client:
        url = gateway.http(f"/v1/realtime/sessions/{session_id}/events")
        async with client.stream("GET", url) as stream:
            async for line in stream.aiter_lines():
                if "upstream.restored" in line:
                    return


LONG = "One two three four five six seven eight. " * 200
"""A reply that cannot be sent before it is cut."""


async def test_a_server_killed_in_mid_response_fails_the_response_and_the_next_turn_works(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        line_to(upstream.port) as line,
        serve(**by_remote(line.port)) as gateway,
        talking(gateway.url("?model=mac")) as talker,
    ):
        session_id = talker.events[0]["session"]["id"]
        await talker.send("session.update", session={"type": "realtime", "instructions": "You are a pelican."})
        await talker.until("session.updated")
        await talker.turn()
        first = talker.events[-1]["response"]["output"][0]["id"]

        await talker.types(LONG)
        await talker.send("response.create")
        await talker.until("response.output_audio.delta")
        line.cut()
        done = await talker.until("response.done")
        error = done["response"]["status_details"]["error"]
        assert (done["response"]["status"], error["type"], error["code"]) == ("failed", "server_error", "upstream_lost")
        assert error["message"] == "The server behind `mac` broke off."
        assert done["response"]["output"][0]["status"] == "incomplete"

        await talker.types("Are you there?", item_id="item_lost")
        refused = (await talker.until("error"))["error"]
        assert (refused["type"], refused["code"]) == ("server_error", "upstream_unavailable")
        await talker.send("response.cancel", event_id="event_c")
        assert (await talker.until("error"))["error"]["code"] == "response_cancel_not_active"

        before = len(talker.events)
        await talker.says(quiet(500))
        await line.open()
        await restored(gateway, session_id)
        assert [event["type"] for event in talker.events[before:]] == []  # an idle client is told nothing

        await talker.send("conversation.item.retrieve", item_id=first)
        assert (await talker.next())["type"] == "conversation.item.retrieved"
        await talker.send("session.update", session={"type": "realtime"})
        updated = await talker.next()
        assert updated["session"]["instructions"] == "You are a pelican."
        assert updated["session"]["id"] == session_id
        answered = await talker.turn()
        assert answered["response"]["status"] == "completed"
    started = [event for event in talker.events if event["type"] == "input_audio_buffer.speech_started"]
    # 2.5 s of the first turn and 0.5 s of silence; 0.2 s of the second are padding. The server's clock began at 0.
    assert started[-1]["audio_start_ms"] == 3_000


async def test_a_server_that_shuts_down_and_starts_again_on_its_port_is_found_there(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as upstream:
        port = upstream.port
        async with serve(**by_remote(port)) as gateway, talking(gateway.url("?model=mac")) as talker:
            await talker.turn()
    # Leaving the block has shut down the gateway first; a second one finds the server gone and then back.
    async with serve(**by_remote(port)) as gateway:
        async with talking(gateway.url("?model=mac"), greeted=False) as refused:
            assert (await refused.next())["error"]["code"] == "model_not_found"
        async with serve(whole=True, profile="scripted", port=port):
            async with talking(gateway.url("?model=mac")) as talker:
                assert (await talker.turn())["response"]["status"] == "completed"


async def test_speech_lost_with_the_server_is_told_once_and_its_turn_ends(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        line_to(upstream.port) as line,
        serve(**by_remote(line.port)) as gateway,
        talking(gateway.url("?model=mac")) as talker,
    ):
        await talker.says(voice(600))
        await talker.until("input_audio_buffer.speech_started")
        line.cut()
        await talker.until("input_audio_buffer.speech_stopped")
        assert (await talker.next())["error"]["code"] == "upstream_unavailable"
        await talker.says(voice(1_000))
        await talker.send("input_audio_buffer.clear")
        assert (await talker.next())["type"] == "input_audio_buffer.cleared"  # and no second error before it


async def test_commands_without_an_answer_are_answered_when_the_server_is_lost(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        line_to(upstream.port) as line,
        serve(**by_remote(line.port)) as gateway,
        talking(gateway.url("?model=mac")) as talker,
    ):
        line.stall()
        await talker.send("session.update", session={"type": "realtime", "instructions": "Lost."}, event_id="event_u")
        await talker.types("Lost, too.")
        await talker.socket.send("{")
        assert (await talker.until("error"))["error"]["code"] == "invalid_json"  # answered here, behind the other two
        line.cut()
        lost = [(await talker.until("error"))["error"] for _ in range(2)]
    assert [error["event_id"] for error in lost] == ["event_u", None]
    assert {error["code"] for error in lost} == {"upstream_lost"}


async def test_a_server_that_takes_nothing_counts_as_lost_and_holds_nothing_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "SEND_TIMEOUT_S", 0.3)
    async with (
        serve(whole=True, profile="scripted") as upstream,
        line_to(upstream.port) as line,
        serve(**by_remote(line.port)) as gateway,
        talking(gateway.url("?model=mac")) as talker,
    ):
        line.stall()
        for _ in range(16):  # more than all buffers on the way can hold
            await talker.types("x" * 2**20)
        await talker.types("x", event_id="event_x")
        codes = [(await talker.until("error"))["error"] for _ in range(17)]
    assert {"upstream_lost", "upstream_unavailable"} == {error["code"] for error in codes}
    assert codes[-1]["event_id"] == "event_x"


# --- dialects ------------------------------------------------------------------------------------------------------


async def test_a_beta_client_talks_to_a_ga_server(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted", scripted_reply=REPLY) as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        talking(gateway.url("?model=mac"), lawful=False, additional_headers=BETA) as talker,
    ):
        await talker.send(
            "session.update", session={"modalities": ["text", "audio"], "voice": "nova", "temperature": 0.7}
        )
        await talker.until("session.updated")
        await talker.turn()
        await talker.send("session.update", session={"voice": 7}, event_id="event_b")
        error = (await talker.until("error"))["error"]
    law = BetaSessionLaw()
    assert [law.violations(event) for event in talker.events if law.violations(event)] == []
    assert (error["param"], error["event_id"]) == ("session.voice", "event_b")
    kinds = {event["type"] for event in talker.events}
    assert {"conversation.item.created", "response.audio.delta", "response.audio_transcript.done"} <= kinds
    assert not any(kind.startswith("response.output_audio") for kind in kinds)


async def test_a_ga_client_talks_to_a_beta_server(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted", scripted_reply=REPLY) as upstream,
        serve(**by_remote(upstream.port, dialect="beta")) as gateway,
    ):
        stories = []
        for url in (upstream.url(), gateway.url("?model=mac")):
            async with talking(url) as talker:
                turn_detection = {"type": "server_vad", "silence_duration_ms": 400}
                await talker.send(
                    "session.update",
                    session={"type": "realtime", "audio": {"input": {"turn_detection": turn_detection}}},
                )
                await talker.turn()
                await talker.types("Hello.", item_id="item_typed")
                await talker.until("conversation.item.done")
                await talker.send("conversation.item.create", item={"type": "message"}, event_id="event_bad")
                await talker.until("error")
            stories.append([kind for kind, _ in story(talker.events)])
    assert stories[0] == stories[1]
    shown = next(event for event in talker.events if event["type"] == "session.updated")["session"]
    assert shown["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 400
    error = talker.events[-1]["error"]
    assert (error["event_id"], error["param"]) == ("event_bad", "item.role")


async def test_two_beta_sides_understand_each_other(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted", scripted_reply=REPLY) as upstream,
        serve(**by_remote(upstream.port, dialect="beta")) as gateway,
    ):
        stories = []
        for url in (upstream.url(), gateway.url("?model=mac")):
            async with talking(url, lawful=False, additional_headers=BETA) as talker:
                await talker.send("session.update", session={"instructions": "Be brief."})
                await talker.until("session.updated")
                await talker.turn()
            stories.append(story(talker.events))
    assert stories[0][1:] == stories[1][1:]


# --- what is ours --------------------------------------------------------------------------------------------------


async def test_frames_that_are_no_events_are_answered_here(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        talking(gateway.url("?model=mac")) as talker,
    ):
        for frame in (b"\0\1", "{", "[]", json.dumps({"type": "response.create", "x": "y" * (15 * 2**20)})):
            await talker.socket.send(frame)
        codes = [(await talker.until("error"))["error"]["code"] for _ in range(4)]
        assert codes == ["invalid_event", "invalid_json", "invalid_event", "event_too_large"]


async def test_our_own_settings_stay_here_and_are_echoed_to_who_sent_them(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        talking(gateway.url("?model=mac&gateway.barge_in=off"), lawful=False) as talker,
    ):
        assert talker.events[0]["session"]["gateway"] == {"barge_in": None, "speculation": None}
        await talker.send("session.update", session={"type": "realtime", "gateway": {"barge_in": "never"}})
        assert (await talker.next())["error"]["param"] == "session.gateway.barge_in"


async def test_the_settings_of_an_ephemeral_key_are_in_the_first_event(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        httpx2.AsyncClient() as client,
    ):
        session = {"type": "realtime", "model": "mac", "instructions": "You are a pelican."}
        answer = await client.post(gateway.http("/v1/realtime/client_secrets"), json={"session": session})
        headers = {"Authorization": f"Bearer {answer.json()['value']}"}
        async with talking(gateway.url(""), additional_headers=headers) as talker:
            assert talker.events[0]["session"]["instructions"] == "You are a pelican."
            await talker.send("session.update", session={"type": "realtime"})
            assert (await talker.next())["type"] == "session.updated"


async def test_a_transcription_session_is_relayed_where_a_remote_is_named(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        talking(gateway.url("?intent=transcription&model=mac")) as talker,
    ):
        assert talker.events[0]["session"]["type"] == "transcription"
        await talker.says(quiet(200), voice(800), quiet(1_500))
        await talker.until("conversation.item.input_audio_transcription.completed")


async def test_a_relayed_turn_is_measured_as_any_other(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted", scripted_reply=REPLY) as upstream,
        serve(**by_remote(upstream.port)) as gateway,
        httpx2.AsyncClient() as client,
    ):
        async with talking(gateway.url("?model=mac")) as talker:
            await talker.turn()
            await talker.send("response.create", response={"output_modalities": ["text"]})
            await talker.until("response.done")
        await gateway.idle()
        session_id = talker.events[0]["session"]["id"]
        told = await client.get(gateway.http(f"/v1/realtime/sessions/{session_id}/events"))
        events = [json.loads(line.removeprefix("data: ")) for line in told.text.splitlines() if "data: " in line]
    told_of = {event["type"] for event in events}
    heard = {"vad", "speech.started", "speech.stopped", "turn.committed"}
    assert heard | {"response.started", "response.ended", "audio.sent", "agent.state"} <= told_of
    turns = [event for event in events if event["type"] == "waterfall"]
    assert [(turn["turn"], turn["outcome"]) for turn in turns] in (
        [("speech", "heard"), ("request", "silent")],
        [("request", "silent"), ("speech", "cut")],  # the session was over before it was heard
    )
    spoken = next(turn for turn in turns if turn["turn"] == "speech")
    assert {"eot_wait", "llm_ttft", "tts_ttfa", "send"} <= set(spoken["stages_ms"])
    assert sum(spoken["stages_ms"].values()) == spoken["total_ms"]


async def test_both_sockets_end_with_the_client(serve: Serve) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(**by_remote(upstream.port)) as gateway,
    ):
        async with talking(gateway.url("?model=mac")):
            assert (gateway.service.sessions_active, upstream.service.sessions_active) == (1, 1)
        await gateway.idle()
        await upstream.idle()
