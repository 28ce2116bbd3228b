"""Pipecat's speech-to-text on a transcription session: OpenAIRealtimeSTTService by default, behind a local VAD."""

from __future__ import annotations

import asyncio

from dialogue import GATEWAY_KEY, SOCKET_URL, SPOKEN_TURN, STEP_DEADLINE_S, report
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import Frame, InterimTranscriptionFrame, TranscriptionFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner
from pipecat_room import Room


class Reader(FrameProcessor):
    """Keeps what is transcribed."""

    def __init__(self) -> None:
        super().__init__()
        self.interim = ""
        self.heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case InterimTranscriptionFrame():
                self.interim += frame.text
            case TranscriptionFrame() if not self.heard.done():
                self.heard.set_result(frame.text)
        await self.push_frame(frame, direction)


async def main() -> None:
    room, reader = Room(), Reader()
    service = OpenAIRealtimeSTTService(base_url=SOCKET_URL, api_key=GATEWAY_KEY)
    vad = VADProcessor(vad_analyzer=SileroVADAnalyzer())
    worker = PipelineWorker(Pipeline([room.input(), vad, service, reader]))
    errors: list[str] = []

    @worker.event_handler("on_pipeline_error")
    async def failed(_: PipelineWorker, frame: Frame) -> None:
        errors.append(str(frame))

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    try:
        room.microphone.speak(SPOKEN_TURN)
        heard = await asyncio.wait_for(reader.heard, STEP_DEADLINE_S)
    finally:
        await runner.cancel()
        await running
    report("transcribed", heard=heard, interim=reader.interim, errors=errors)


if __name__ == "__main__":
    asyncio.run(main())
