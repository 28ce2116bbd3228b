"""A Pipecat bot around OpenAIRealtimeLLMService, built as Pipecat's own examples build it, and all that it told."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Callable
from typing import Any

from dialogue import ALOUD, BYTES_PER_MS, FULL_DUPLEX, GATEWAY_KEY, SOCKET_URL, STEP_DEADLINE_S, WEATHER
from loguru import logger
from pipecat.frames.frames import (
    BotStartedSpeakingFrame,
    BotStoppedSpeakingFrame,
    Frame,
    InterruptionWorkerFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime.events import ConversationItem
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner
from pipecat_room import Room

logger.remove()
logger.add(sys.stderr, level="WARNING")

ADDRESS = {"base_url": SOCKET_URL, "api_key": GATEWAY_KEY}
"""What the service is told; all else is its default, or what an example of Pipecat's sets."""


class Witness(FrameProcessor):
    """Stands between the service and the loudspeaker and counts what passes."""

    def __init__(self, news: Callable[[], None]) -> None:
        super().__init__()
        self._news = news
        self.audio_ms = 0
        self.bot_speaks = False

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case TTSAudioRawFrame():
                self.audio_ms += len(frame.audio) // BYTES_PER_MS
            case BotStartedSpeakingFrame():
                self.bot_speaks = True
            case BotStoppedSpeakingFrame():
                self.bot_speaks = False
        self._news()
        await self.push_frame(frame, direction)


class Bot:
    """The pipeline: microphone → user's context → service → loudspeaker → agent's context."""

    def __init__(self, service: OpenAIRealtimeLLMService, user_params: LLMUserAggregatorParams | None = None) -> None:
        self.service = service
        self.room = Room()
        self.calls: list[FunctionCallParams] = []
        self.said: list[Any] = []
        self.heard: list[str] = []
        self._items: dict[str, ConversationItem] = {}
        self.errors: list[str] = []
        self._news = asyncio.Event()
        self.witness = Witness(self._news.set)
        self._context = LLMContext([{"role": "developer", "content": "Greet the user."}], [self.get_weather])
        pair = LLMContextAggregatorPair(self._context, user_params=user_params)
        pair.user().add_event_handler("on_user_turn_message_added", self._user_said)
        pair.assistant().add_event_handler("on_assistant_turn_stopped", self._agent_said)
        service.add_event_handler("on_conversation_item_updated", self._item_updated)
        chain = [self.room.input(), pair.user(), service, self.witness, self.room.output(), pair.assistant()]
        self._worker = PipelineWorker(Pipeline(chain), params=PipelineParams(enable_metrics=True))
        self._worker.add_event_handler("on_pipeline_error", self._failed)
        self._runner = WorkerRunner(handle_sigint=False)

    async def get_weather(self, params: FunctionCallParams, city: str) -> None:
        """Returns the weather in a city.

        Args:
            city: The city's name.
        """
        self.calls.append(params)
        await params.result_callback(WEATHER)

    async def start(self) -> None:
        """Connect, and let the agent greet."""
        await self._runner.add_workers(self._worker)
        self._running = asyncio.create_task(self._runner.run())
        # A context that comes before the session is open puts its tools into the first update instead of the second.
        async with asyncio.timeout(STEP_DEADLINE_S):
            while not self.service._api_session_ready:  # noqa: ASYNC110  # the service tells nobody
                await asyncio.sleep(0.02)
        await self._worker.queue_frames([LLMRunFrame()])
        await self.said_next(0)

    async def leave(self) -> None:
        """Cancel the pipeline, whatever it is doing."""
        await self._runner.cancel()
        await self._running

    async def ask(self, text: str) -> None:
        """Put a message into the running conversation and ask for its answer, or ask aloud once the bot has ended."""
        if FULL_DUPLEX:
            await self.until(lambda: not self.witness.bot_speaks)
            self.room.microphone.speak(ALOUD[text])
            return
        message = LLMMessagesAppendFrame(messages=[{"role": "user", "content": text}], run_llm=True)
        await self.service.queue_frame(message)

    async def until(self, is_so: Callable[[], Any]) -> Any:
        """Wait until `is_so`, asked after each event, returns something true, and return that."""
        async with asyncio.timeout(STEP_DEADLINE_S):
            while not (found := is_so()):
                self._news.clear()
                await self._news.wait()
        return found

    async def speaking(self) -> None:
        """Wait until the agent is heard."""
        await self.until(lambda: self.witness.bot_speaks)

    async def said_next(self, since: int) -> Any:
        """Return what the agent said first after the first `since` messages, once it was played or cut."""
        return (await self.until(lambda: [said for said in self.said[since:] if said.content]))[0]

    @property
    def items(self) -> list[ConversationItem]:
        """The agent's messages that have ended on the server, as it told them; nods of a full-duplex model are none."""
        messages = [item for item in self._items.values() if item.role == "assistant"]
        return [item for item in messages if item.content and (item.content[0].transcript or not FULL_DUPLEX)]

    async def item_next(self, since: int) -> ConversationItem:
        """Return the agent's first message after the first `since` items, once it has ended on the server."""
        return (await self.until(lambda: self.items[since:]))[0]

    async def kept_ms(self, item_id: str) -> int:
        """Return how much audio of a message the server's conversation holds, in milliseconds."""
        item: ConversationItem = await self.service.retrieve_conversation_item(item_id)
        return len(base64.b64decode(item.content[0].audio)) // BYTES_PER_MS

    async def interrupt(self) -> None:
        """Interrupt the pipeline as an application does."""
        await self.service.push_frame(InterruptionWorkerFrame())

    async def _user_said(self, _: Any, message: Any) -> None:
        self.heard.append(message.content)
        self._news.set()

    async def _agent_said(self, _: Any, message: Any) -> None:
        self.said.append(message)
        self._news.set()

    async def _item_updated(self, _: Any, item_id: str, item: ConversationItem | None) -> None:
        if item is not None:
            self._items[item_id] = item
            self._news.set()

    async def _failed(self, _: Any, frame: Any) -> None:
        self.errors.append(frame.error)
