"""A full-duplex conversation that is begun anew: after a failure, near its longest time, for a change of its prompt."""

from __future__ import annotations

import pytest

from gateway.backends.frame_queue import LONGEST_HELD
from gateway.backends.native import TOOL_RESULT_CHARACTERS
from gateway.backends.native_prompt import HISTORY_CHARACTERS, prompt_from
from gateway.turns.duplex_notices import NoticeKind
from gateway.turns.duplex_vocabulary import DuplexSettings
from models.engines.scripted_duplex import DuplexReply
from protocol.audio_time import samples_from_ms
from protocol.commands import ResponseContext
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime
from tests.gateway.native_session import native_session
from tests.gateway.scripted_cascade import quiet, voice

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all " * 3)
TOOL = {"type": "function", "name": "get_time", "description": "", "parameters": {"type": "object"}}
ASKS_THE_TIME = DuplexReply("It is {result}.", call=("get_time", {}))


def user_text(words: str) -> dict:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}


# --- the prompt ------------------------------------------------------------------------------------------------------


async def test_the_prompt_is_read_before_anybody_speaks_and_no_frame_is_stepped() -> None:
    time = FedTime()
    async with native_session(time) as native:
        await time.advance(290)
        assert native.model.prompts == []
        await time.advance(20)
        assert len(native.model.prompts) == 1
        await time.advance(5_000)
        assert native.stream._at == 0


async def test_settings_that_come_one_by_one_are_read_together() -> None:
    time = FedTime()
    async with native_session(time) as native:
        for instructions in ("Be brief.", "Be polite.", "Be brief and polite."):
            await native.play(quiet(200))
            await native.send("session.update", session={"type": "realtime", "instructions": instructions})
        await native.send("session.update", session={"type": "realtime", "tools": [TOOL]})
        await native.play(quiet(400))
        (prompt,) = native.model.prompts
        assert prompt.instructions == "Be brief and polite."
        assert prompt.tools[0]["function"]["name"] == "get_time"


async def test_what_changes_after_the_prompt_was_read_and_before_a_word_was_said_is_read_anew() -> None:
    async with native_session(FedTime()) as native:
        await native.play(quiet(1_000))
        await native.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        await native.send("conversation.item.create", item=user_text("My name is Ann."))
        await native.play(quiet(400), voice(800), quiet(2_400))
        assert native.stream.prompt.instructions == "Be brief."
        assert native.stream.prompt.history == (("user", "My name is Ann."),)
        assert (await native.told("response.done"))[0]["response"]["status"] == "completed"
        await native.send("session.update", session={"type": "realtime", "instructions": "Be loud."}, event_id="e_1")
        (error,) = await native.told("error")
        assert (error["error"]["param"], error["error"]["event_id"]) == ("session.instructions", "e_1")


async def test_a_turn_that_is_said_while_the_prompt_is_read_is_answered() -> None:
    async with native_session(FedTime(), opens_in_s=6.0) as native:
        await native.play(voice(1_600), quiet(8_000))
        (done,) = await native.told("response.done")
        assert done["response"]["status"] == "completed"
        assert len(await native.told("input_audio_buffer.committed")) == 1
        assert native.backend._queue.waiting == 0


async def test_a_prompt_that_has_changed_is_not_read_to_its_end() -> None:
    time = FedTime()
    async with native_session(time, opens_in_s=20.0) as native:
        await native.play(quiet(1_000))
        await native.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        await native.play(quiet(200))
        assert [prompt.instructions == "Be brief." for prompt in native.model.prompts] == [False, True]
        await time.advance(20_000)
        await native.play(voice(800), quiet(2_400))
        assert len(native.model.streams) == 1
        assert (await native.told("response.done"))[0]["response"]["status"] == "completed"


async def test_what_waits_for_the_prompt_is_bounded() -> None:
    async with native_session(FedTime(), opens_in_s=30.0) as native:
        for _ in range(20):
            await native.play(voice(1_000))
            assert native.backend._queue.waiting <= LONGEST_HELD
        assert native.backend._queue.dropped.old > 0


async def test_a_greeting_with_instructions_of_its_own_is_part_of_the_prompt() -> None:
    async with native_session(FedTime(), DuplexReply("Ahoy!"), opens_in_s=2.0) as native:
        await native.send("session.update", session={"type": "realtime", "instructions": "You are a pirate."})
        await native.send("response.create", response={"instructions": "Greet the user."})
        await native.play(quiet(4_000))
        assert native.stream.prompt.instructions == "You are a pirate.\n\nGreet the user."
        (done,) = await native.told("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"].strip() == "Ahoy!"


def test_the_newest_of_a_long_history_is_read() -> None:
    long = [{"role": "user", "content": f"{number} " + "x" * 180} for number in range(40)]
    prompt = prompt_from(ResponseContext(({"role": "system", "content": "Be brief."}, *long)))
    assert prompt.instructions == "Be brief."
    assert prompt.history[-1][1].startswith("39 ")
    assert HISTORY_CHARACTERS - 200 < sum(len(text) for _, text in prompt.history) <= HISTORY_CHARACTERS


@pytest.mark.parametrize("length", [1_990, 2_001, 6_000])
def test_of_a_long_message_its_end_is_read_and_what_there_is_room_for_before_it(length: int) -> None:
    story = ("once upon a time there was a king " * 200)[:length].strip()
    messages = ({"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": story})
    prompt = prompt_from(ResponseContext(messages))
    assert prompt.history[-1][0] == "assistant"
    kept = prompt.history[-1][1]
    assert story.endswith(kept.removeprefix("… "))
    assert 1_900 < len(kept) <= HISTORY_CHARACTERS
    assert sum(len(text) for _, text in prompt.history) <= HISTORY_CHARACTERS


def test_of_a_message_without_words_that_fit_nothing_is_read() -> None:
    messages = ({"role": "user", "content": "x" * 5_000}, {"role": "user", "content": "y"})
    assert prompt_from(ResponseContext(messages)).history == (("user", "y"),)


# --- failures --------------------------------------------------------------------------------------------------------


async def test_the_next_turn_after_a_failure_works_and_the_model_knows_what_was_said_and_heard() -> None:
    async with native_session(FedTime(), DuplexReply("Good morning."), STORY, heard=("hello there", "a story"),
                              fails_at_ms=7_000) as native:  # fmt: skip
        await native.play(quiet(400), voice(800), quiet(2_400))
        await native.play(voice(800), quiet(3_200))
        statuses = [done["response"]["status"] for done in await native.told("response.done")]
        assert statuses == ["completed", "failed"]
        assert len(native.model.streams) == 2
        (user, agent, asked, told) = native.stream.prompt.history
        assert [user[0], agent[0], asked[0]] == ["user", "assistant", "user"]
        assert (user[1].strip(), agent[1].strip(), asked[1].strip()) == ("hello there", "Good morning.", "a story")
        assert told[1].startswith("once upon a time")
        assert len(told[1]) < len(STORY.text)
        await native.play(voice(800), quiet(2_400))
        assert (await native.told("response.done"))[-1]["response"]["status"] == "completed"
        before, _, after = (await native.spoken_ms()).values()
        assert min(before, after) > 300
        assert native.noted(NoticeKind.MODEL_FAILED)[0]["retry_ms"] == 0
        assert [fields["why"] for fields in native.noted(NoticeKind.CONVERSATION_OPENED)] == ["begun", "failed"]


async def test_a_model_that_cannot_be_opened_fails_each_turn_and_is_tried_when_somebody_speaks() -> None:
    async with native_session(FedTime(), open_failures=5) as native:
        await native.play(quiet(8_000))
        assert len(native.model.prompts) == 4  # at once, after 1 s, after 5 s
        await native.play(voice(800), quiet(1_600))
        (failed,) = await native.told("response.done")
        assert failed["response"]["status"] == "failed"
        assert failed["response"]["status_details"]["error"]["code"] == "duplex_failed"
        (item,) = await native.told("input_audio_buffer.committed")
        await native.play(quiet(5_000))
        assert len(native.model.prompts) == 5
        await native.send("response.create", event_id="e_1")
        assert (await native.told("response.done"))[-1]["response"]["status"] == "failed"
        await native.play(quiet(6_000), voice(800), quiet(2_400))
        assert (await native.told("response.done"))[-1]["response"]["status"] == "completed"
        assert len(native.model.prompts) == 6


async def test_a_turn_that_nobody_heard_says_that_it_has_no_transcript() -> None:
    async with native_session(FedTime(), open_failures=9) as native:
        session = {"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}
        await native.send("session.update", session=session)
        await native.play(quiet(2_000), voice(800), quiet(1_600))
        kind = "conversation.item.input_audio_transcription.failed"
        (failed,) = await native.told(kind)
        assert failed["error"]["code"] == "duplex_failed"
        assert (await native.told("input_audio_buffer.committed"))[0]["item_id"] == failed["item_id"]


async def test_a_result_that_comes_after_the_model_has_failed_is_read_by_the_next_conversation() -> None:
    async with native_session(FedTime(), ASKS_THE_TIME, DuplexReply("Noon, I hear."), fails_at_ms=3_200) as native:
        await native.send("session.update", session={"type": "realtime", "tools": [TOOL]})
        await native.play(quiet(400), voice(800), quiet(2_800))
        (call,) = await native.told("response.function_call_arguments.done")
        assert len(native.model.streams) == 2
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        await native.send("conversation.item.create", item=output)
        await native.send("response.create")
        await native.play(quiet(2_400))
        assert ("tool", "noon") in native.stream.prompt.history
        assert await native.told("error") == []


# --- the longest time ------------------------------------------------------------------------------------------------


async def test_a_conversation_near_its_longest_time_goes_on_in_a_new_one_without_a_word() -> None:
    async with native_session(FedTime(), longest_s=20.0, heard=("hello there",)) as native:
        await native.play(quiet(400), voice(800), quiet(14_000))
        (before,) = native.model.streams
        await native.play(quiet(2_000))
        assert len(native.model.streams) == 2
        assert before._at <= samples_from_ms(17_000)
        assert [text.strip() for _, text in native.stream.prompt.history] == ["hello there", "I heard you."]
        await native.play(voice(800), quiet(2_400))
        assert [done["response"]["status"] for done in await native.told("response.done")] == ["completed"] * 2
        assert min((await native.spoken_ms()).values()) > 300
        assert await native.told("error") == []
        (ended,) = native.noted(NoticeKind.CONVERSATION_ENDED)
        assert ended["why"] == "too_long"


async def test_a_speech_that_does_not_end_by_then_stays_incomplete() -> None:
    story = DuplexReply("and then " * 200)
    async with native_session(FedTime(), story, DuplexReply("Yes?"), longest_s=20.0) as native:
        await native.play(quiet(400), voice(800), quiet(20_000))
        (done,) = await native.told("response.done")
        assert done["response"]["status"] == "incomplete"
        assert done["response"]["status_details"]["reason"] == "max_output_tokens"
        await native.play(voice(800), quiet(2_400))
        assert len(await native.told("response.done")) >= 1
        assert len(native.model.streams) == 2


async def test_a_turn_whose_answer_the_end_prevents_is_answered_by_the_next_conversation() -> None:
    async with native_session(
        FedTime(), longest_s=20.0, answer_after_ms=1_600, nod_after_ms=None, heard=("hello", "and now")
    ) as native:
        await native.play(quiet(400), voice(800), quiet(12_400), voice(3_600), quiet(800))
        await native.play(quiet(4_000))
        assert len(native.model.streams) == 2
        assert native.stream.prompt.history[-1][1].strip() == "and now"
        assert len(await native.told("response.done")) == 2


async def test_the_next_conversation_knows_no_more_of_a_speech_than_was_heard() -> None:
    async with native_session(FedTime(), STORY, DuplexReply("Yes?"), longest_s=20.0) as native:
        await native.play(quiet(400), voice(800), quiet(3_200))
        await native.running.read()
        await native.send("response.cancel")
        item = (await native.told("response.output_item.added"))[0]["item"]["id"]
        await native.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=1_500)
        assert len(await native.told("conversation.item.truncated")) == 1
        await native.play(quiet(14_000))
        assert len(native.model.streams) == 2
        ((role, heard),) = native.stream.prompt.history
        assert role == "assistant"
        assert heard.startswith("once upon a time")
        assert "three daughters" not in heard


# --- changes in mid-conversation -------------------------------------------------------------------------------------


async def test_where_it_is_allowed_a_change_begins_the_conversation_anew_in_a_pause() -> None:
    async with native_session(FedTime(), DuplexReply("Good morning."), STORY, restarts=True) as native:
        await native.play(quiet(400), voice(800), quiet(480))
        await native.send("session.update", session={"type": "realtime", "instructions": "Be a pirate."})
        await native.send("conversation.item.create", item=user_text("I am Ann."))
        await native.play(quiet(400))
        assert len(native.model.streams) == 1
        await native.play(quiet(2_400))
        assert len(native.model.streams) == 2
        assert native.stream.prompt.instructions == "Be a pirate."
        assert ("user", "I am Ann.") in native.stream.prompt.history
        assert await native.told("error") == []


async def test_where_it_is_allowed_a_written_question_is_answered_without_waiting_for_a_pause() -> None:
    async with native_session(FedTime(), DuplexReply("Good morning."), restarts=True) as native:
        await native.play(quiet(400), voice(800), quiet(1_600))
        await native.send("conversation.item.create", item=user_text("What is my name?"))
        await native.send("response.create", response={"metadata": {"mine": "yes"}})
        await native.play(quiet(2_400))
        assert native.stream.prompt.history[-1] == ("user", "What is my name?")
        done = (await native.told("response.done"))[-1]["response"]
        assert (done["status"], done["metadata"]) == ("completed", {"mine": "yes"})
        assert min((await native.spoken_ms()).values()) > 300
        assert await native.told("error") == []


# --- tools -----------------------------------------------------------------------------------------------------------


async def test_a_long_result_is_cut_for_the_model_alone_and_watchers_are_told() -> None:
    async with native_session(FedTime(), ASKS_THE_TIME) as native:
        await native.play(quiet(400), voice(800), quiet(1_600))
        (call,) = await native.told("response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "x" * 5_000}
        await native.send("conversation.item.create", item=output)
        await native.play(quiet(1_200))
        assert native.stream.results == ["x" * TOOL_RESULT_CHARACTERS]
        (notice,) = native.noted(NoticeKind.TOOL_RESULT_CUT)
        assert (notice["characters"], notice["kept"]) == (5_000, TOOL_RESULT_CHARACTERS)
        (added,) = [event for event in await native.told("conversation.item.added") if "output" in event["item"]]
        assert len(added["item"]["output"]) == 5_000


async def test_the_response_that_follows_a_result_is_not_the_request_for_patience() -> None:
    settings = DuplexSettings(on_hold="One moment please.")
    async with native_session(FedTime(), ASKS_THE_TIME, settings=settings) as native:
        await native.play(quiet(400), voice(800), quiet(1_400))
        (call,) = await native.told("response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        await native.send("conversation.item.create", item=output)
        await native.send("response.create", response={"metadata": {"mine": "yes"}})
        await native.play(quiet(4_000))
        assert await native.told("error") == []
        spoken = [done["response"] for done in await native.told("response.done")][1:]
        said = [(reply["output"][0]["content"][0]["transcript"].strip(), reply["metadata"]) for reply in spoken]
        assert said == [("One moment please.", None), ("It is noon.", {"mine": "yes"})]


async def test_a_result_that_is_late_is_read_all_the_same() -> None:
    async with native_session(FedTime(), ASKS_THE_TIME) as native:
        await native.play(quiet(400), voice(800), quiet(12_000))
        (call,) = await native.told("response.function_call_arguments.done")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "noon"}
        await native.send("conversation.item.create", item=output)
        await native.play(quiet(1_200))
        assert [result[:9] for result in native.stream.results] == ['{"error":', "noon"]


# --- what was asked for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opens_in_s", [0.0, 5.0])
async def test_a_response_that_has_not_begun_can_be_cancelled(opens_in_s: float) -> None:
    async with native_session(FedTime(), opens_in_s=opens_in_s) as native:
        await native.play(quiet(400))
        await native.send("response.create")
        await native.send("response.cancel")
        await native.play(quiet(8_000))
        (done,) = await native.told("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        assert await native.told("response.output_audio.delta") == []


async def test_a_response_of_text_in_a_spoken_session_sends_no_audio() -> None:
    async with native_session(FedTime(), DuplexReply("In writing."), DuplexReply("Aloud.")) as native:
        await native.play(quiet(400))
        await native.send("response.create", response={"output_modalities": ["text"]})
        await native.play(quiet(2_400))
        (done,) = await native.told("response.done")
        assert done["response"]["output"][0]["content"][0]["text"].strip() == "In writing."
        assert await native.told("response.output_audio.delta") == []
        await native.play(voice(800), quiet(2_400))
        assert await native.told("response.output_audio.delta") != []


# --- models that can do less, clients of the other dialect -----------------------------------------------------------


async def test_a_model_that_cannot_be_steered_refuses_to_be_made_to_speak_and_is_muted_by_a_cancel() -> None:
    lacks = {"steered": False, "instructions": False, "tools": False, "hears_words": False}
    async with native_session(FedTime(), STORY, DuplexReply("Yes."), lacks=lacks) as native:
        await native.send("session.update", session={"type": "realtime", "instructions": "Be brief.", "tools": [TOOL]})
        (updated,) = await native.told("session.updated")
        assert (updated["session"]["instructions"], updated["session"]["tools"]) == ("", [])
        await native.play(quiet(400))
        await native.send("response.create", event_id="e_1")
        (error,) = await native.told("error")
        assert (error["error"]["code"], error["error"]["event_id"]) == ("unsupported_value", "e_1")
        await native.play(voice(800), quiet(2_000))
        await native.send("response.cancel")
        (done,) = await native.told("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        deltas = len(await native.told("response.output_audio.delta"))
        await native.play(quiet(1_600))
        assert len(await native.told("response.output_audio.delta")) == deltas


async def test_a_beta_client_sees_the_effective_values_and_errors_in_its_own_words() -> None:
    async with native_session(FedTime(), dialect=Dialect.BETA) as native:
        session = {"instructions": "Be brief.", "voice": "alloy", "temperature": 0.7, "max_response_output_tokens": 9}
        await native.send("session.update", session=session)
        (updated,) = await native.told("session.updated")
        assert (updated["session"]["voice"], updated["session"]["max_response_output_tokens"]) == ("murmur", "inf")
        assert updated["session"]["temperature"] == 0.8
        await native.play(quiet(400), voice(800), quiet(2_400))
        assert (await native.told("response.done"))[0]["response"]["status"] == "completed"
        assert await native.told("response.audio.delta") != []
        await native.send("session.update", session={"instructions": "Be loud."}, event_id="e_1")
        (error,) = await native.told("error")
        assert (error["error"]["param"], error["error"]["event_id"]) == ("session.instructions", "e_1")
