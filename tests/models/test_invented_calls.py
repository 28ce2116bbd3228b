from models.engines.invented_calls import NESTING, invented_call, invented_value


def offered(name: str, parameters: object) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_the_first_function_is_called_with_what_it_requires() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "minimum": 3},
            "note": {"type": "string"},
        },
        "required": ["city", "unit", "days"],
    }
    tools = ({"type": "mcp"}, offered("get_weather", schema), offered("get_time", {}))
    assert invented_call(tools) == ("get_weather", {"city": "Paris", "unit": "celsius", "days": 3})


def test_of_what_is_all_optional_all_is_given() -> None:
    schema = {
        "type": "object",
        "properties": {
            "on": {"type": "boolean"},
            "by": {"default": "you"},
            "when": {"type": ["null", "string"]},
            "to": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}},
            "kind": {"const": "loud"},
        },
    }
    assert invented_value(schema) == {"on": True, "by": "you", "when": None, "to": [1], "kind": "loud"}


def test_nobody_is_called_where_nobody_is_offered() -> None:
    assert invented_call(()) is None
    assert invented_call([{"type": "function"}]) is None


def test_a_function_without_a_schema_is_called_without_arguments() -> None:
    assert invented_call([offered("hang_up", None)]) == ("hang_up", {})
    assert invented_call([offered("odd", {"type": "string"})]) == ("odd", {})


def test_a_schema_that_goes_on_for_ever_ends() -> None:
    schema: dict = {"type": "object", "properties": {}}
    schema["properties"]["more"] = schema
    value, depth = invented_value(schema), 0
    while value:
        value, depth = value["more"], depth + 1
    assert depth == NESTING
