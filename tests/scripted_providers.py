"""A model that speaks as Anthropic's Messages API or Google's generateContent does, on loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests import scripted_model
from tests.scripted_model import Asked, Line, Model

Call = tuple[str, dict[str, Any]]


@contextmanager
def serving(*script: Line) -> Iterator[Model]:
    """`url` is what these providers' libraries take for their address."""
    with scripted_model.serving(*script) as model:
        model.url = model.url.removesuffix("/v1")
        yield model


@dataclass(frozen=True)
class Claude:
    model = "anthropic:claude-haiku-4-5"
    address = "ANTHROPIC_BASE_URL"
    micros = 200  # of an answer: a dollar a million in, 5 out

    def says(self, text: str = "", *calls: Call, cut: bool = False) -> Line:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for number, (tool, given) in enumerate(calls, 1):
            blocks.append({"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given})
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": blocks,
            "stop_reason": "max_tokens" if cut else "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 20},
        }
        return {"body": message}

    def fails(self, status: int, message: str = "no") -> Line:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        error = {"type": kinds.get(status, "api_error"), "message": message}
        return {"status": status, "headers": {}, "body": {"type": "error", "error": error}}

    def too_long(self) -> Line:
        return self.fails(400, "prompt is too long: 300000 tokens > 200000 maximum")

    def tools(self, asked: Asked) -> list[str]:
        return [tool["name"] for tool in asked["tools"]]

    def room(self, asked: Asked) -> int:
        return int(asked["max_tokens"])

    def results(self, asked: Asked) -> list[Any]:
        """What a request says of each call, in order."""
        said = [message["content"] for message in asked["messages"] if isinstance(message["content"], list)]
        found = [block["content"] for blocks in said for block in blocks if block["type"] == "tool_result"]
        return [json.loads(one if isinstance(one, str) else one[0]["text"]) for one in found]


@dataclass(frozen=True)
class Gemini:
    model = "google:gemini-2.5-flash"
    address = "GOOGLE_GEMINI_BASE_URL"
    micros = 80  # of an answer: 30 cents a million in, 2.50 dollars out

    def says(self, text: str = "", *calls: Call, cut: bool = False) -> Line:
        parts: list[dict[str, Any]] = [{"text": text}] if text else []
        parts += [{"functionCall": {"name": tool, "args": given}} for tool, given in calls]
        reason = "MAX_TOKENS" if cut else "STOP"
        answer = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
            "modelVersion": "gemini-2.5-flash",
            "responseId": "r1",
        }
        return {"body": answer}

    def fails(self, status: int, message: str = "no") -> Line:
        kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
        error = {"code": status, "message": message, "status": kinds.get(status, "INTERNAL")}
        return {"status": status, "headers": {}, "body": {"error": error}}

    def too_long(self) -> Line:
        words = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048575)."
        return self.fails(400, words)

    def tools(self, asked: Asked) -> list[str]:
        return [one["name"] for tool in asked["tools"] for one in tool["functionDeclarations"]]

    def room(self, asked: Asked) -> int:
        return int(asked["generationConfig"]["maxOutputTokens"])

    def results(self, asked: Asked) -> list[Any]:
        parts = [part for content in asked["contents"] for part in content["parts"]]
        found = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        return [json.loads(one["return_value"]) if isinstance(one["return_value"], str) else one for one in found]
