"""The whole examination: roles and remote servers, one by one, each bounded in time; what the latencies add up to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from gateway.doctor.ears import examine_asr, examine_vad
from gateway.doctor.endpoint import Endpoint
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.doctor.foreground import examine_foreground
from gateway.doctor.native import ROLE as NATIVE
from gateway.doctor.native import examine_native
from gateway.doctor.remotes import examine_remote
from gateway.doctor.turn_ends import examine_judges, reasons_told
from gateway.doctor.voice import Examined, examine_round_trip, examine_tts
from gateway.engine_choice import engine_plan
from gateway.remote_settings import all_remotes
from gateway.settings import Settings
from models import judge_loading
from models.asr_loading import asr_weights, load_asr
from models.chat_loading import chat_weights, load_chat
from models.duplex_interface import DuplexModel
from models.engine_plan import AUTO, EnginePlan
from models.interfaces import EngineError, EngineInfo
from models.judge_loading import chosen_judges, judge_weights, load_judges
from models.loading import load_vad, vad_weights
from models.native_loading import load_native
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts, tts_weights
from models.weights import ProgressCallback, WeightsError, WeightsStore

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOADING_S = 900.0
"""Longest time to fetch and load one role's weights (chosen: half a gigabyte over a slow line)."""

SLOW_ANSWER_MS = 1_500.0
"""From here on what the machines need for an answer is worth a warning (chosen: silence is waited for besides)."""


async def examine(settings: Settings, progress: ProgressCallback | None = None) -> AsyncGenerator[Finding, None]:
    """Yield what is found, check by check. `progress` is told of weights that are fetched, from another thread."""
    plan = engine_plan(settings)
    yield sound("settings", "valid", f"profile {settings.profile}: {_described(plan)}")
    examination = _Examination(settings, plan, WeightsStore(settings.home), progress)
    figures: dict[str, float] = {}
    async with AsyncExitStack() as engines:
        async for finding in examination.run(engines):
            figures |= {f"{finding.role}.{name}": value for name, value in finding.figures.items()}
            yield finding
    if not plan.native.alone:
        yield _latency(figures)


def _described(plan: EnginePlan) -> str:
    asr, tts, chat, native = plan.asr.engine, plan.tts.engine, plan.chat.engine, plan.native.engine
    cascade = "" if plan.native.alone else f", ASR {asr}, language model {chat}, TTS {tts}"
    return f"VAD {plan.vad}{cascade}" + ("" if native == "none" else f", full-duplex model {native}")


class _Examination:
    def __init__(
        self, settings: Settings, plan: EnginePlan, store: WeightsStore, progress: ProgressCallback | None
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._store = store
        self._progress = progress
        self._worker = SpeechWorker()
        self._failure: Finding | None = None

    async def run(self, engines: AsyncExitStack) -> AsyncGenerator[Finding, None]:
        """Examine one role after the other; what is loaded is closed with `engines`."""
        engines.push_async_callback(self._worker.aclose)
        plan = self._plan
        vad = await self._loaded("vad", vad_weights(plan), load_vad(plan, self._store), engines)
        if vad is None:
            yield self._told()
        else:
            async for finding in examine_vad(vad):
                yield finding
        if not plan.native.alone:
            async for finding in self._cascade(engines):
                yield finding
        async for finding in self._native(engines):
            yield finding
        for remote in all_remotes(self._settings).values():
            async for finding in examine_remote(remote):
                yield finding

    async def _native(self, engines: AsyncExitStack) -> AsyncGenerator[Finding, None]:
        """Examine the full-duplex model, if there is one."""
        plan = self._plan.native
        if plan.engine == "none":
            return
        model = await self._loaded(NATIVE, (), _with_info(load_native(plan)), engines)
        if model is None:
            yield self._told()
            return
        async for finding in examine_native(model, plan):
            yield finding

    async def _cascade(self, engines: AsyncExitStack) -> AsyncGenerator[Finding, None]:
        settings, plan = self._settings, self._plan
        asr = await self._loaded("asr", asr_weights(plan.asr), load_asr(plan.asr, self._store, self._worker), engines)
        if asr is None:
            yield self._told()
        else:
            async for finding in examine_asr(asr, plan.asr, _endpoint("asr", "ASR", plan.asr), settings):
                yield finding
        tts = await self._loaded("tts", tts_weights(plan.tts), load_tts(plan.tts, self._store, self._worker), engines)
        examined = Examined()
        if tts is None:
            yield self._told()
        else:
            async for finding in examine_tts(tts, plan.tts, _endpoint("tts", "TTS", plan.tts), settings, examined):
                yield finding
        if asr is not None and examined.spoken is not None:
            async for finding in examine_round_trip(asr, plan.asr, plan.tts, examined.spoken, settings):
                yield finding
        chat = await self._loaded("foreground", chat_weights(plan.chat), load_chat(plan.chat, self._store), engines)
        alive = chat is not None
        if chat is None:
            yield self._told()
        else:
            brain = _endpoint("foreground", "FOREGROUND", plan.chat)
            async for finding in examine_foreground(chat, plan.chat, brain, settings):
                alive = alive and finding.verdict is not Verdict.FAIL
                yield finding
        async for finding in self._judges(engines, alive):
            yield finding

    async def _judges(self, engines: AsyncExitStack, alive: bool) -> AsyncGenerator[Finding, None]:
        """Examine the judges. Without a language model that answers there is nothing to ask it."""
        plan, endpoint = self._plan, None
        real = plan.vad != "scripted" and plan.asr.engine != "scripted"
        names = chosen_judges(plan.judges, real=real)
        if plan.chat.engine == "endpoint":
            if not alive:
                names = tuple(name for name in names if name not in ("probability", "verdict"))
            else:
                endpoint = judge_loading.Endpoint(plan.chat.base_url, plan.chat.model, plan.chat.api_key)
        with reasons_told() as reasons:
            loading = _all(
                load_judges(
                    names,
                    store=self._store,
                    worker=self._worker,
                    endpoint=endpoint,
                    both=AUTO not in plan.judges,
                )
            )
            judges = await self._loaded("end_of_turn", judge_weights(names, endpoint), loading, engines)
            if judges is None:
                yield self._told()
                return
            for judge in judges:
                if (close := getattr(judge, "aclose", None)) is not None:
                    engines.push_async_callback(close)
            async for finding in examine_judges(judges, names, reasons):
                yield finding

    async def _loaded(
        self, role: str, weights: Any, loading: Awaitable[tuple[T, EngineInfo]], engines: AsyncExitStack
    ) -> T | None:
        """Return the engine of a role, closed with `engines`; None if it can't be had, and `_told` says why."""
        try:
            async with asyncio.timeout(LOADING_S):
                await asyncio.to_thread(self._store.fetch, list(weights), progress=self._progress)
                engine, _ = await loading
        except TimeoutError:
            why = Diagnosis(f"it is not loaded after {LOADING_S:g} s", "run `duplex-gateway warmup` on a better line.")
        except WeightsError as error:
            why = Diagnosis("its weights can't be had", str(error))
        except EngineError as error:
            why = Diagnosis("it can't be loaded", error.message)
        except (ImportError, ValueError, OSError) as error:
            why = Diagnosis("it can't be loaded", str(error) or type(error).__name__)
        except Exception as bug:  # the other roles are examined all the same
            logger.exception("loading %s failed unexpectedly", role)
            why = Diagnosis(f"loading it fails unexpectedly ({type(bug).__name__})", "report it, with what is logged.")
        else:
            if (close := getattr(engine, "aclose", None)) is not None:
                engines.push_async_callback(close)
            return engine
        finally:
            if hasattr(loading, "close"):
                loading.close()  # never awaited when the weights are missing
        self._failure = why.of(role, "loads")
        return None

    def _told(self) -> Finding:
        assert self._failure is not None
        return self._failure


async def _with_info(loading: Awaitable[DuplexModel | None]) -> tuple[DuplexModel, EngineInfo]:
    model = await loading
    assert model is not None
    return model, model.info


async def _all(loading: Awaitable[list[tuple[T, EngineInfo]]]) -> tuple[list[T], EngineInfo]:
    loaded = await loading
    return [engine for engine, _ in loaded], EngineInfo("end_of_turn", "")


def _endpoint(role: str, prefix: str, plan: Any) -> Endpoint | None:
    """Return the endpoint of a role's plan; None if it runs in this process."""
    if plan.engine != "endpoint":
        return None
    return Endpoint(role, prefix, plan.base_url, plan.api_key, plan.model)


def _latency(figures: dict[str, float]) -> Finding:
    """Return what a turn waits for once it is over, as far as it was measured."""
    parts = {
        "asr": figures.get("asr.took_ms"),
        "language model": figures.get("foreground.first_token_ms"),
        "voice": figures.get("tts.first_audio_ms"),
    }
    measured = {name: value for name, value in parts.items() if value is not None}
    total_ms = sum(measured.values())
    detail = f"{total_ms:.0f} ms from the end of a turn to the first audio at most: " + ", ".join(
        f"{name} {value:.0f}" for name, value in measured.items()
    )
    if len(measured) < len(parts):
        return sound("latency", "summary", detail if measured else "nothing was measured", answer_ms=total_ms)
    if total_ms > SLOW_ANSWER_MS:
        slowest = max(measured, key=lambda name: measured[name])
        return Diagnosis(detail, f"make the {slowest} faster first.", Verdict.WARN).of(
            "latency", "summary", answer_ms=total_ms
        )
    return sound("latency", "summary", detail, answer_ms=total_ms)
