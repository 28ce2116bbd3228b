"""Loads the end-of-turn judges, each of them warm or, where it stands on an endpoint, proven.

A judge on an endpoint never keeps the gateway from starting. Where the server shows no probabilities, or its model
fails the verdict's check, that judge stays off and the log says why; where the server isn't there yet, the judge has no
opinion until it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from models.engine_plan import AUTO
from models.engines.lexical_judge import LexicalJudge
from models.engines.openai_endpoint import server_name
from models.engines.probability_judge import ProbabilityJudge, embedded_judge
from models.engines.proven_judge import Proof, ProvenJudge, Unfit
from models.engines.token_scores import TokenScores
from models.engines.verdict_check import ITEMS, TO_PASS, right_answers
from models.engines.verdict_judge import VerdictJudge
from models.interfaces import EndOfTurnJudge, EngineError, EngineInfo
from models.speech_worker import SpeechWorker
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2, TURN_TAKING, Weight, packaged

logger = logging.getLogger(__name__)

JUDGES = ("audio", "probability", "verdict", "lexical")
"""All judges there are."""

ROLE = "end_of_turn"

LoadedJudge = tuple[EndOfTurnJudge, EngineInfo]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server whose language model may judge."""

    base_url: str
    model: str
    api_key: str


def chosen_judges(names: Sequence[str], *, real: bool) -> tuple[str, ...]:
    """Return the judges that `names` stand for; () for none.

    `auto` stands for all of them, and for none where the voice or its words are scripted: nothing there is `real`.
    Raises ValueError for a name that is none.
    """
    unknown = [name for name in names if name not in (*JUDGES, AUTO)]
    if unknown:
        raise ValueError(f"no end-of-turn judge is called {unknown[0]!r}: there are {', '.join(JUDGES)}")
    if AUTO in names:
        return JUDGES if real else ()
    return tuple(name for name in JUDGES if name in names)


def judge_weights(names: Sequence[str], endpoint: Endpoint | None) -> tuple[Weight, ...]:
    """Return the weights that the judges called `names` take from the store."""
    sound = (TURN_TAKING,) if "audio" in names else ()
    return (*sound, SMOLLM2) if "probability" in names and endpoint is None else sound


async def load_judges(
    names: Sequence[str],
    *,
    store: WeightsStore,
    worker: SpeechWorker,
    endpoint: Endpoint | None,
    both: bool,
) -> list[LoadedJudge]:
    """Return the judges called `names`, but for those that can't be had.

    The weights are in `store`. The audio judge runs in `worker`. `endpoint` None: the
    probabilities are the embedded model's, and there are no verdicts. `both`: the verdict is wanted even where the
    endpoint shows probabilities, which are cheaper and finer.
    """
    async with AsyncExitStack() as undo:
        loaded: list[LoadedJudge] = []
        if "audio" in names:
            loaded.append(await _load_audio(store, worker))
        if endpoint is not None:
            loaded += await _load_on_endpoint(names, endpoint, both, undo)
        elif "probability" in names:
            loaded.append(await _load_embedded_probability(store, undo))
        if "lexical" in names:
            loaded.append(
                (LexicalJudge(), EngineInfo(ROLE, "lexical (last words, numbers, fillers)", "built in", "MIT"))
            )
        undo.pop_all()
        return loaded


async def _load_audio(store: WeightsStore, worker: SpeechWorker) -> LoadedJudge:
    from models.engines.smart_turn import SmartTurnJudge

    judge = await asyncio.to_thread(SmartTurnJudge, store.path(TURN_TAKING, "smart-turn-v3.2-cpu.onnx"), worker.get())
    await asyncio.to_thread(judge.warm_up)
    return judge, packaged(ROLE, "audio (Smart Turn v3.2)", TURN_TAKING)


async def _load_embedded_probability(store: WeightsStore, undo: AsyncExitStack) -> LoadedJudge:
    from models.engines.embedded_chat import MODEL_NAME

    model = store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")
    judge = await asyncio.to_thread(embedded_judge, model, MODEL_NAME)
    undo.push_async_callback(judge.aclose)
    try:
        await judge.warm_up()
    except EngineError as error:  # the first pauses will be judged late, or by the others
        logger.warning("the probability judge could not be warmed: %s", error.message)
    return judge, packaged(ROLE, f"probability ({MODEL_NAME})", SMOLLM2)


async def _load_on_endpoint(
    names: Sequence[str], endpoint: Endpoint, both: bool, undo: AsyncExitStack
) -> list[LoadedJudge]:
    """Return what of `probability` and `verdict` the endpoint can do, or may be able to once it is there."""
    candidates: list[ProvenJudge] = []
    probability: ProvenJudge | None = None
    if "probability" in names:
        probability = _proven_probability(endpoint)
        candidates.append(probability)
    if "verdict" in names:
        candidates.append(_proven_verdict(endpoint, instead_of=None if both else probability))
    for candidate in candidates:
        undo.push_async_callback(candidate.aclose)
    proofs = await asyncio.gather(*(candidate.attempt() for candidate in candidates))
    loaded: list[LoadedJudge] = []
    server = server_name(endpoint.base_url)  # /health shows it to anybody, and a URL may hold a password
    for candidate, proof in zip(candidates, proofs, strict=True):
        if proof is Proof.UNFIT:
            await candidate.aclose()
            continue
        state = "" if proof is Proof.FIT else ", not reached yet"
        loaded.append((candidate, EngineInfo(ROLE, f"{candidate.name} ({endpoint.model}{state})", server)))
    return loaded


def _proven_probability(endpoint: Endpoint) -> ProvenJudge:
    judge = ProbabilityJudge(TokenScores(endpoint.base_url, endpoint.model, api_key=endpoint.api_key))

    async def prove() -> None:
        if await judge.warm_up() is None:
            raise Unfit(f"the server {judge.server} shows no probabilities of full stops")

    return ProvenJudge(judge, prove)


def _proven_verdict(endpoint: Endpoint, *, instead_of: ProvenJudge | None) -> ProvenJudge:
    judge = VerdictJudge(endpoint.base_url, endpoint.model, api_key=endpoint.api_key)

    async def prove() -> None:
        if instead_of is not None and await instead_of.attempt() is Proof.FIT:
            raise Unfit("the server shows probabilities, which are finer and cheaper")
        right = await right_answers(judge)
        if right < TO_PASS:
            raise Unfit(f"{endpoint.model} judged {right} of {len(ITEMS)} test sentences right, {TO_PASS} are wanted")

    return ProvenJudge(judge, prove)
