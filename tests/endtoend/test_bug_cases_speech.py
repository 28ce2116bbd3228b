"""RB-34, 35, 36, 44, 49 of the real-world bug cases, with real engines: what the gateway says."""

from __future__ import annotations

import asyncio
import re

import pytest
from offline_speech import OfflineSpeech, longest_quiet_ms
from recording_chat_server import RecordingChatServer, Say, pieces
from spoken_words import normal_words, word_error_rate
from wire_session import Reply, WireSession

from clients.wav_audio import RATE_HZ

pytestmark = pytest.mark.models


async def spoken(url: str, question: str = "go") -> Reply:
    async with WireSession(url) as session:
        await session.user_types(question)
        reply = await session.respond()
        assert reply.status == "completed", reply.done.body
        return reply


MARKDOWN = (
    "## Plan\n- **First**, open `main.py`.\n- Then see [the docs](https://example.com/a_b?q=1).\n| a | b |\n|---|---|\n"
    "🎉 Done!"
)
UNSPEAKABLE = "asterisk|star star|hash|pound|backtick|bracket|pipe|https|slash|party popper"


async def test_rb34_markdown_links_and_emoji_are_not_spoken(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech
) -> None:
    llm.answer(pieces([MARKDOWN[start : start + 4] for start in range(0, len(MARKDOWN), 4)]))
    reply = await spoken(spoken_url, "plan?")
    heard = normal_words(await asyncio.to_thread(speech.recognise, reply.audio))
    assert reply.status == "completed"
    for word in ("plan", "first", "open", "docs", "done"):
        assert word in heard, heard
    assert not re.search(rf"\b({UNSPEAKABLE})\b", heard), heard
    assert 2_000 <= reply.audio_ms <= 14_000
    done = reply.first("response.output_audio_transcript.done").details("transcript")
    item = reply.first("response.output_item.done").details("item", "content")[0]["transcript"]
    assert done == item == reply.output[0]["content"][0]["transcript"]


NUMBERS = "Dr. Lee walked 6.28 km by 10:45 a.m. and paid $7.25 for version 2.1.0 of the app."


async def test_rb35_dots_inside_numbers_end_no_sentence(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech
) -> None:
    tokens = re.findall(r"\s?[A-Za-z]{1,4}|\s?\d{1,2}|\s?.", NUMBERS)
    assert "".join(tokens) == NUMBERS
    llm.answer(pieces(tokens, every_s=0.05))
    reply = await spoken(spoken_url)
    heard = normal_words(await asyncio.to_thread(speech.recognise, reply.audio))
    plain = normal_words(await asyncio.to_thread(speech.recognise, speech.say(NUMBERS).pcm))
    assert longest_quiet_ms(reply.audio) <= 550
    wanted = {
        "6.28": r"six (point )?(twenty eight|two eight)",
        "10:45": r"ten forty five",
        "7.25": r"seven (dollars )?(and )?(point )?(twenty five|two five)",
        "2.1": r"two (point )?one",
        "doctor lee": r"doctor lee|doctor le\w*",
    }
    for name, pattern in wanted.items():
        if re.search(pattern, plain):  # the recogniser hears it when it is spoken without a gateway
            assert re.search(pattern, heard), (name, heard)


async def test_rb36_thoughts_are_not_heard(spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech) -> None:
    llm.answer([Say("<th"), Say("ink>I should be ru"), Say("de</thi"), Say("nk>Hello "), Say("there.")])
    reply = await spoken(spoken_url, "hi")
    heard = normal_words(await asyncio.to_thread(speech.recognise, reply.audio))
    assert "hello" in heard
    assert not re.search("rude|think|should", heard)


MARKED_TEXTS = {
    "walrus": "The walrus lives on the northern coast and sleeps on the ice for most of the day. A walrus has two long "
    "teeth that grow all its life, and it uses them to climb out of the cold water. In spring the herd travels north "
    "with the melting ice, and each walrus follows the sound of the others.",
    "piano": "The piano stood in the corner of the big room and nobody had played it for many years. One morning a "
    "child opened the lid and pressed a key, and the old piano answered with a clear and gentle sound. From that day "
    "on there was music in the house, and the piano was never closed again.",
    "cactus": "The cactus on the window needs very little water and a lot of light in the summer. In the winter you "
    "should keep the cactus cool and dry, or it will not have flowers in the spring. If you must move it, wear thick "
    "gloves, because a cactus does not like to be touched by anybody.",
    "violin": "The violin is made of thin pieces of wood that are bent with heat and glued together. A good violin can "
    "last for hundreds of years, and many players believe that it sounds better with age. To keep a violin safe you "
    "should loosen the bow after playing and store it in a dry place.",
}


async def test_rb44_sessions_that_speak_at_the_same_time_keep_their_words(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech
) -> None:
    llm.answer(lambda body: MARKED_TEXTS[body["messages"][-1]["content"]])
    baseline = {marker: await spoken(spoken_url, marker) for marker in MARKED_TEXTS}
    alone = {marker: await asyncio.to_thread(speech.recognise, reply.audio) for marker, reply in baseline.items()}
    ids: set[str] = set()
    for _ in range(3):
        replies = await asyncio.gather(*(spoken(spoken_url, marker) for marker in MARKED_TEXTS))
        for marker, reply in zip(MARKED_TEXTS, replies, strict=True):
            assert reply.audio_ms == pytest.approx(baseline[marker].audio_ms, rel=0.04)
            heard = await asyncio.to_thread(speech.recognise, reply.audio)
            missed = word_error_rate([(MARKED_TEXTS[marker], alone[marker])])  # what the recogniser misses anyway
            assert word_error_rate([(MARKED_TEXTS[marker], heard)]) <= max(0.12, missed), heard
            assert not [other for other in MARKED_TEXTS if other != marker and other in normal_words(heard).split()]
            assert reply.response_id not in ids
            assert reply.item_id() not in ids
            ids |= {reply.response_id, reply.item_id()}


LONG_SENTENCE = (
    "when the morning train left the railway station near the river the retired teacher looked out of the window "
    "and saw the green fields and the white houses and the long road that went up the hill to the village where "
    "he had lived as a boy and he thought about the summer when he and his brother had built a boat from wooden "
    "planks and had sailed it down the river to the bridge and how their mother had waited for them on the bank "
    "with dry clothes and warm bread and how the whole family had laughed about it in the evening while the rain "
    "came down on the roof and the dog slept in front of the fire and then he took a book out of his bag and "
    "began to read but after a few pages he put it away again because the light was too low and the story was too "
    "sad and so he closed his eyes and listened to the sound of the wheels and waited for the city where his "
    "daughter would meet him and the very last word is pineapple"
)


async def test_rb49_a_long_sentence_without_punctuation_is_spoken_to_its_end(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech
) -> None:
    count = len(LONG_SENTENCE.split())
    assert count >= 170

    async def timed(text: str) -> tuple[Reply, float]:
        llm.answer(text)
        reply = await spoken(spoken_url)
        created = reply.first("response.created").at_s
        return reply, reply.first("response.output_audio.delta").at_s - created

    _, short_s = await timed("This is a sentence that has only ten words inside.")
    reply, long_s = await timed(LONG_SENTENCE)
    assert reply.status == "completed"
    assert reply.audio_ms >= count / 4.5 * 1_000
    end = normal_words(await asyncio.to_thread(speech.recognise, reply.audio[-5 * 2 * RATE_HZ :]))
    assert "very last word is pineapple" in end
    heard = await asyncio.to_thread(speech.recognise, reply.audio)
    assert word_error_rate([(LONG_SENTENCE, heard)]) <= 0.2
    assert long_s <= 3 * short_s + 0.5  # half a second for other work on this machine
