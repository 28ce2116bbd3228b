"""The hub against real MCP servers: lists, calls, failures, limits, and what reaches whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.mcp import hub as hub_module
from gateway.mcp.allowed_hosts import AllowedHosts
from gateway.mcp.hub import McpHub
from protocol.mcp_items import McpFailure, McpTool
from protocol.mcp_servers import McpServer
from protocol.outputs import CallMcpTool, ListMcpTools
from tests.gateway.served_mcp import ServedMcp, serve_mcp, served_app, tools, unused_port


class Orders:
    """A running hub, asked one thing at a time."""

    def __init__(self, allowed: AllowedHosts | None = None, **options: float) -> None:
        self._results: dict[str, asyncio.Future[object]] = {}
        self.hub = McpHub(allowed or AllowedHosts(), listed=self._take, called=self._take, **options)
        self.running = asyncio.create_task(self.hub.run())
        self.count = 0

    def _take(self, item_id: str, result: object) -> None:
        self._results[item_id].set_result(result)  # a second report of the same order fails here

    def order(self, make: type[ListMcpTools] | type[CallMcpTool], *arguments: object) -> asyncio.Future[object]:
        self.count += 1
        item_id = f"item_{self.count}"
        self._results[item_id] = asyncio.get_running_loop().create_future()
        self.hub.submit(make(item_id, *arguments))
        return self._results[item_id]

    async def listed(self, server: McpServer) -> tuple[McpTool, ...] | McpFailure:
        async with asyncio.timeout(20):
            return await self.order(ListMcpTools, server)

    async def called(self, server: McpServer, tool: str, **arguments: object) -> str | McpFailure:
        async with asyncio.timeout(20):
            return await self.order(CallMcpTool, server, tool, arguments)

    async def close(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@pytest.fixture
async def orders() -> AsyncIterator[Orders]:
    orders = Orders()
    await asyncio.sleep(0)
    yield orders
    await orders.close()


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}, {"sse": True}])
async def test_tools_are_listed_and_called_over_each_transport(orders: Orders, options: dict[str, bool]) -> None:
    async with serve_mcp(**options) as served:
        server = McpServer("s", served.sse_url if "sse" in options else served.url)
        tools = await orders.listed(server)
        assert isinstance(tools, tuple)
        assert [tool.name for tool in tools] == ["add", "wipe", "fail", "long", "structured", "wait"]
        assert tools[0].description == "Add two numbers."
        assert tools[0].input_schema["required"] == ["a", "b"]
        assert [tool.read_only for tool in tools[:2]] == [True, False]
        assert await orders.called(server, "add", a=2, b=3) == "5"
        await orders.close()


async def test_a_session_with_a_server_is_opened_once_and_ended(orders: Orders) -> None:
    async with serve_mcp() as served:
        server = McpServer("s", served.url)
        await orders.listed(server)
        await orders.called(server, "add", a=1, b=1)
        await orders.called(server, "add", a=1, b=1)
        ids = {request["mcp-session-id"] for request in served.requests if "mcp-session-id" in request}
        await orders.close()
        assert served.calls == ["add", "add"]
        assert len(ids) <= 1  # none with a server that keeps no sessions
        if ids:
            assert served.requests[-1]["method"] == "DELETE"


async def test_keys_are_sent_with_each_request(orders: Orders) -> None:
    async with serve_mcp(wanted="Bearer tok") as served:
        server = McpServer("s", served.url, "tok", (("X-Team", "blue"),))
        assert isinstance(await orders.listed(server), tuple)
        assert await orders.called(server, "add", a=2, b=2) == "4"
        assert {request["authorization"] for request in served.requests} == {"Bearer tok"}
        assert {request["x-team"] for request in served.requests} == {"blue"}


@pytest.mark.parametrize("status", [401, 403, 404, 503])
async def test_a_refused_list_tells_the_http_status(orders: Orders, status: int) -> None:
    async with serve_mcp(wanted="Bearer other", status=status) as served:
        failure = await orders.listed(McpServer("s", served.url, "tok"))
        assert isinstance(failure, McpFailure)
        assert (failure.kind, failure.code) == ("http_error", status)
        assert failure.message.startswith(f"Http status code: {status} (")
        assert "tok" not in failure.message


async def test_a_server_that_is_not_there_is_an_http_error(orders: Orders) -> None:
    failure = await orders.listed(McpServer("s", f"http://127.0.0.1:{unused_port()}/mcp"))
    assert isinstance(failure, McpFailure)
    assert (failure.kind, failure.code) == ("http_error", 502)


async def test_a_server_that_was_down_can_be_listed_later(orders: Orders) -> None:
    port = unused_port()
    server = McpServer("s", f"http://127.0.0.1:{port}/mcp")
    assert isinstance(await orders.listed(server), McpFailure)
    async with serve_mcp(port=port):
        assert isinstance(await orders.listed(server), tuple)
        await orders.close()


async def test_a_server_that_restarted_is_called_in_a_new_session(orders: Orders) -> None:
    port = unused_port()
    server = McpServer("s", f"http://127.0.0.1:{port}/mcp")
    async with serve_mcp(port=port):
        assert isinstance(await orders.listed(server), tuple)
    async with serve_mcp(port=port) as again:
        assert await orders.called(server, "add", a=4, b=4) == "8"
        assert again.calls == ["add"]
        await orders.close()


async def test_calls_that_find_their_session_forgotten_together_share_the_new_one(orders: Orders) -> None:
    forgotten: list[str] = []
    together = asyncio.Event()

    def forgetful(served: ServedMcp):
        app = tools(served).streamable_http_app()

        async def first_two_refused(scope, receive, send):
            if scope["type"] == "http" and scope["method"] == "POST" and listed.done() and len(forgotten) < 2:
                forgotten.append(scope["path"])
                if len(forgotten) == 2:
                    together.set()
                await together.wait()
                await send({"type": "http.response.start", "status": 404, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await app(scope, receive, send)

        return first_two_refused

    listed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with served_app(forgetful) as served:
        server = McpServer("s", served.url)
        assert isinstance(await orders.listed(server), tuple)
        listed.set_result(None)
        assert await asyncio.gather(*(orders.called(server, "add", a=n, b=n) for n in (1, 2))) == ["2", "4"]
        assert (len(forgotten), served.calls) == (2, ["add", "add"])
        await orders.close()


async def test_an_order_that_gives_up_on_a_mute_server_takes_no_other_with_it(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "LIST_DEADLINE_S", 0.2)
    answers = asyncio.Event()

    def mute(served: ServedMcp):
        app = tools(served).streamable_http_app()

        async def later(scope, receive, send):
            if scope["type"] == "http":
                await answers.wait()
            await app(scope, receive, send)

        return later

    async with served_app(mute) as served:
        server = McpServer("s", served.url)
        call = orders.order(CallMcpTool, server, "add", {"a": 1, "b": 2})
        failure = await orders.listed(server)
        assert isinstance(failure, McpFailure)
        assert failure.code == 504
        assert not call.done()
        answers.set()
        async with asyncio.timeout(10):
            assert await call == "3"
        await orders.close()


async def test_a_tool_that_fails_tells_its_own_words(orders: Orders) -> None:
    async with serve_mcp() as served:
        failure = await orders.called(McpServer("s", served.url), "fail")
        assert isinstance(failure, McpFailure)
        assert failure.kind == "tool_execution_error"
        assert "the database is down" in failure.message
        assert failure.to_wire() == {"type": "tool_execution_error", "message": failure.message}


async def test_a_tool_that_is_not_there_fails(orders: Orders) -> None:
    async with serve_mcp() as served:
        failure = await orders.called(McpServer("s", served.url), "nothing")
        assert isinstance(failure, McpFailure)
        assert "nothing" in failure.message


async def test_a_result_that_is_not_text_is_told_as_json(orders: Orders) -> None:
    async with serve_mcp() as served:
        outcome = await orders.called(McpServer("s", served.url), "structured")
        assert isinstance(outcome, str)
        assert '"degrees"' in outcome


@pytest.mark.parametrize(("characters", "cut"), [(32 * 2**10, False), (32 * 2**10 + 1, True)])
async def test_a_long_result_is_cut_with_a_note(orders: Orders, characters: int, cut: bool) -> None:
    async with serve_mcp() as served:
        outcome = await orders.called(McpServer("s", served.url), "long", characters=characters)
        assert isinstance(outcome, str)
        assert len(outcome) == 32 * 2**10
        assert outcome.endswith("[cut: the result is longer than the gateway passes on]") == cut


async def test_a_result_beyond_what_is_read_fails_and_the_connection_lives(orders: Orders) -> None:
    async with serve_mcp(json_response=True) as served:
        server = McpServer("s", served.url)
        failure = await orders.called(server, "long", characters=9 * 2**20)
        assert isinstance(failure, McpFailure)
        assert "larger than 8 MiB" in failure.message
        assert await orders.called(server, "add", a=1, b=2) == "3"


async def test_a_call_ends_at_its_deadline_and_the_server_is_told() -> None:
    orders = Orders(call_deadline_s=0.3)
    async with serve_mcp() as served:
        server = McpServer("s", served.url)
        assert isinstance(await orders.listed(server), tuple)
        failure = await orders.called(server, "wait")
        assert isinstance(failure, McpFailure)
        assert (failure.kind, failure.code) == ("http_error", 504)
        async with asyncio.timeout(10):
            await served.cancelled.wait()
        orders.hub._call_deadline_s = 20  # the server still serves, however slow the machine is
        assert await orders.called(server, "add", a=1, b=2) == "3"
        await orders.close()


async def test_calls_of_one_server_do_not_wait_for_each_other(orders: Orders) -> None:
    async with serve_mcp() as served:
        server = McpServer("s", served.url)
        slow = orders.order(CallMcpTool, server, "wait", {})
        assert await orders.called(server, "add", a=1, b=2) == "3"
        assert not slow.done()
        served.release.set()
        assert await slow == "waited"


async def test_a_session_that_ends_stops_its_calls_and_reports_nothing() -> None:
    orders = Orders()
    async with serve_mcp() as served:
        pending = orders.order(CallMcpTool, McpServer("s", served.url), "wait", {})
        async with asyncio.timeout(10):
            while "wait" not in served.calls:  # noqa: ASYNC110 - the server is another's
                await asyncio.sleep(0.01)
        await orders.close()
        assert not pending.done()
        async with asyncio.timeout(10):
            await served.cancelled.wait()


async def test_a_host_that_is_not_allowed_is_not_asked() -> None:
    orders = Orders(AllowedHosts(("tools.example",), bound=("0.0.0.0",)))
    async with serve_mcp() as served:
        for failure in (
            await orders.listed(McpServer("s", served.url)),
            await orders.called(McpServer("s", served.url), "add"),
        ):
            assert isinstance(failure, McpFailure)
            assert (failure.kind, failure.code) == ("http_error", 403)
            assert "--mcp-allow-host" in failure.message
        assert served.requests == []
    await orders.close()


async def test_a_redirect_to_another_host_is_not_followed(orders: Orders) -> None:
    async with serve_mcp() as target:
        location = target.url.encode()

        def redirecting(served: ServedMcp):
            async def app(scope, receive, send):
                if scope["type"] == "lifespan":
                    await receive()
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
                    await send({"type": "lifespan.shutdown.complete"})
                    return
                await send({"type": "http.response.start", "status": 307, "headers": [(b"location", location)]})
                await send({"type": "http.response.body", "body": b""})

            return app

        async with served_app(redirecting) as served:
            failure = await orders.listed(McpServer("s", served.url, "tok"))
            assert isinstance(failure, McpFailure)
            assert target.requests == []


async def test_more_orders_than_a_session_may_have_fail_at_once(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "MAX_RUNNING", 2)
    async with serve_mcp() as served:
        server = McpServer("s", served.url)
        running = [orders.order(CallMcpTool, server, "wait", {}) for _ in range(2)]
        failure = await orders.called(server, "add", a=1, b=1)
        assert isinstance(failure, McpFailure)
        assert failure.code == 429
        served.release.set()
        assert await asyncio.gather(*running) == ["waited", "waited"]


@pytest.mark.parametrize(
    ("names", "bound", "url", "allowed"),
    [
        ((), ("127.0.0.1", "::1"), "http://127.0.0.1:8000/mcp", True),
        ((), ("127.0.0.1",), "http://localhost/mcp", True),
        ((), ("127.0.0.1",), "http://[::1]:9/mcp", True),
        ((), ("127.0.0.1",), "https://tools.example/mcp", False),
        ((), ("0.0.0.0",), "http://127.0.0.1:8000/mcp", False),
        ((), ("127.0.0.1", "192.168.0.5"), "http://localhost/mcp", False),
        (("localhost",), ("0.0.0.0",), "http://localhost:8000/mcp", True),
        (("Tools.Example",), ("127.0.0.1",), "https://tools.example/mcp", True),
        (("tools.example",), ("127.0.0.1",), "https://tools.example.evil.example/mcp", False),
        (("tools.example",), ("127.0.0.1",), "https://evil.example/?tools.example", False),
        (("tools.example",), ("127.0.0.1",), "https://tools.example@evil.example/mcp", False),
        (("tools.example:443",), ("127.0.0.1",), "https://tools.example/mcp", True),
        (("tools.example:443",), ("127.0.0.1",), "https://tools.example:8443/mcp", False),
        (("*",), ("0.0.0.0",), "http://10.0.0.1/mcp", True),
        (("*",), ("0.0.0.0",), "http:///mcp", False),
    ],
)
def test_only_hosts_on_the_list_may_be_reached(
    names: tuple[str, ...], bound: tuple[str, ...], url: str, allowed: bool
) -> None:
    assert AllowedHosts(names, bound=bound).allow(url) is allowed
