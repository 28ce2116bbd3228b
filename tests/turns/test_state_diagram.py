"""The tables of states.py are the whole truth: nothing else happens, all of it happens, and it is drawn as it is."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import gateway.turns.agent_turn
import gateway.turns.user_turn
from gateway.turns.states import (
    AGENT_TRANSITIONS,
    USER_TRANSITIONS,
    Agent,
    AgentTrigger,
    IllegalTransition,
    User,
    UserTrigger,
    mermaid,
    next_agent,
    next_user,
)
from tests.simulation.scenarios import SCENARIOS

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"


def test_every_transition_of_the_tables_is_walked_by_a_recorded_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    walked_by_user: set[tuple[User, UserTrigger]] = set()
    walked_by_agent: set[tuple[Agent, AgentTrigger]] = set()

    def user(state: User, trigger: UserTrigger) -> User:
        walked_by_user.add((state, trigger))
        return next_user(state, trigger)

    def agent(state: Agent, trigger: AgentTrigger) -> Agent:
        walked_by_agent.add((state, trigger))
        return next_agent(state, trigger)

    monkeypatch.setattr(gateway.turns.user_turn, "next_user", user)
    monkeypatch.setattr(gateway.turns.agent_turn, "next_agent", agent)
    for scenario in SCENARIOS.values():
        scenario()
    assert walked_by_user == set(USER_TRANSITIONS)
    assert walked_by_agent == set(AGENT_TRANSITIONS)


@pytest.mark.parametrize("pair", [pair for pair in product(User, UserTrigger) if pair not in USER_TRANSITIONS])
def test_what_the_users_table_does_not_list_is_illegal(pair: tuple[User, UserTrigger]) -> None:
    with pytest.raises(IllegalTransition, match=pair[0].value):
        next_user(*pair)


@pytest.mark.parametrize("pair", [pair for pair in product(Agent, AgentTrigger) if pair not in AGENT_TRANSITIONS])
def test_what_the_agents_table_does_not_list_is_illegal(pair: tuple[Agent, AgentTrigger]) -> None:
    with pytest.raises(IllegalTransition, match=pair[0].value):
        next_agent(*pair)


def test_the_diagram_shows_every_state_and_every_transition() -> None:
    diagram = mermaid()
    for (state, trigger), then in USER_TRANSITIONS.items():
        assert f"user_{state} --> user_{then}: {trigger}" in diagram
    for (agent, cause), after in AGENT_TRANSITIONS.items():
        assert f"agent_{agent} --> agent_{after}: {cause}" in diagram
    assert diagram.count("-->") == len(USER_TRANSITIONS) + len(AGENT_TRANSITIONS) + 2, "and the two beginnings"


def test_the_architecture_page_shows_exactly_this_diagram() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    shown = page.split("<!-- states:begin -->")[1].split("<!-- states:end -->")[0]
    assert shown.strip() == f"```mermaid\n{mermaid()}\n```"
