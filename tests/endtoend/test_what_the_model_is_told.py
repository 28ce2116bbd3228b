"""What reaches the language model: the turns so far, and of a reply that was cut off no more than was heard."""

from __future__ import annotations

import asyncio
import time

import pytest
from offline_speech import OfflineSpeech
from recording_chat_server import RecordingChatServer
from speech_references import REFERENCES, clip
from spoken_words import normal_words, word_error_rate
from wire_session import DEADLINE_S, SERVER_VAD

from clients.conversation import Conversation, server_vad
from clients.timeline import AUDIO, DONE, SPEECH_STARTED, TRANSCRIPT, audio_bytes
from clients.virtual_player import VirtualPlayer
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY
from gateway.turns.speakable_chunks import SpeakableChunks
from gateway.turns.spoken_text import spoken_text
from protocol.audio_time import samples_from_ms
from protocol.history import CUT_OFF_MARK

pytestmark = pytest.mark.models


async def test_the_second_request_holds_the_first_turn(spoken_url: str, llm: RecordingChatServer) -> None:
    llm.answer("The first answer.", "The second answer.")
    async with Conversation(spoken_url, update=server_vad(SERVER_VAD["silence_duration_ms"])) as conversation:
        for name in ("goforward", "something"):
            response_id = await conversation.answered(conversation.say(clip(name)))
            assert response_id is not None
            await conversation.ended(response_id)
            await conversation.played()
    messages = [
        (message["role"], message["content"]) for message in llm.requests[-1].messages if message["role"] != "system"
    ]
    roles = [role for role, _ in messages]
    assert roles == ["user", "assistant", "user"]
    assert word_error_rate([(REFERENCES["goforward"], messages[0][1])]) <= 0.25
    assert messages[1][1] == "The first answer."
    assert word_error_rate([(REFERENCES["something"], messages[2][1])]) <= 0.25


STORY = (
    "Yesterday morning my sister walked to the market. She bought **7** red apples for $4.50 and a loaf of bread. "
    "Then she met our neighbor near the fountain. They talked about the weather and the new school. After that she "
    "took the bus back home. In the afternoon we baked a large cake together. Our father came back from work very "
    "late. He was happy to see the cake on the table. We ate together and listened to some music. Finally "
    "everybody went to bed before midnight."
)


@pytest.mark.parametrize("truncates", [True, False], ids=["the client truncates", "the client says nothing"])
@pytest.mark.parametrize("after_s", [1.3, 3.8, 5.9])
async def test_a_reply_that_was_cut_is_remembered_as_far_as_it_was_heard(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech, *, truncates: bool, after_s: float
) -> None:
    llm.answer(STORY, "All right.")
    update = server_vad(SERVER_VAD["silence_duration_ms"])
    async with Conversation(spoken_url, update=update, truncates=truncates) as conversation:
        first = await conversation.answered(conversation.say(clip("goforward")))
        assert first is not None
        sounding = await conversation.first_audio(first)
        # The user listens for a while before cutting in: this is audio time, not an order of events.
        await asyncio.sleep(max(0.0, sounding.at_s + after_s - time.monotonic()))
        second = await conversation.answered(conversation.say(clip("librivox_0880")))
        assert second is not None
        await conversation.ended(second)
        events = list(conversation.events)
    assert len(llm.requests) == 2

    started = next(event for event in events if event.type == SPEECH_STARTED and event.at_s > sounding.at_s)
    done = next(event for event in events if event.type == DONE and event.details("response", "id") == first)
    late = [event for event in events if event.details("response_id") == first and event.at_s > done.at_s]
    assert late == []
    player = played_until(events, first, started.at_s)
    (told,) = llm.requests[1].said_by("assistant")
    assert told.endswith(CUT_OFF_MARK)
    remembered = told.removesuffix(CUT_OFF_MARK)
    item_id = sounding.details("item_id")
    heard_samples = samples_from_ms(player.heard_ms(item_id, now_s=started.at_s))
    heard = await asyncio.to_thread(words_said_by, STORY, heard_samples, speech)
    assert heard.startswith(remembered)
    # A client that tells is believed to the word. Of one that doesn't it is assumed that it plays 150 ms late.
    if truncates:
        assert remembered.split() == heard.split()
    else:
        late_samples = max(0, heard_samples - DEFAULT_PLAYOUT_DELAY)
        expected = await asyncio.to_thread(words_said_by, STORY, late_samples, speech)
        assert abs(len(expected.split()) - len(remembered.split())) <= 1, (remembered, expected, heard)
    # And a recogniser hears the same, but that it completes a last word of which it got half, or drops it.
    recognised = normal_words(await asyncio.to_thread(speech.recognise, player.recording())).split()
    missed = len(recognised) - len(normal_words(spoken_text(heard)).split())
    assert -1 <= missed <= 1, (heard, recognised)
    assert any(event.type == TRANSCRIPT for event in events)


def words_said_by(text: str, samples: int, speech: OfflineSpeech) -> str:
    """Return the words of a reply that its first `samples` say, by what the voice itself tells of its words."""
    splitter = SpeakableChunks()
    reached, before = 0, 0
    for chunk in splitter.feed(text) + splitter.finish():
        times, length = speech.word_times(chunk.spoken)
        ended = [word.text_end for word in times if before + word.audio_end_samples <= samples]
        reached = max([reached, *map(chunk.text_said, ended)])
        before += length
    return text[:reached]


def played_until(events: list, response_id: str, at_s: float) -> VirtualPlayer:
    """Return a player at 1× that has played a response up to then."""
    player = VirtualPlayer()
    for event in events:
        if event.type == AUDIO and event.details("response_id") == response_id and event.at_s <= at_s:
            player.play(event.details("item_id"), audio_bytes(event), now_s=event.at_s)
    player.flush(now_s=at_s)
    return player


async def test_a_reply_of_which_nothing_was_heard_is_not_remembered(spoken_url: str, llm: RecordingChatServer) -> None:
    llm.answer("", "Yes.")
    async with Conversation(spoken_url, update=server_vad(SERVER_VAD["silence_duration_ms"])) as conversation:
        for name in ("goforward", "something"):
            response_id = await conversation.answered(conversation.say(clip(name)))
            assert response_id is not None
            await asyncio.wait_for(conversation.ended(response_id), DEADLINE_S)
    assert llm.requests[-1].said_by("assistant") == []
