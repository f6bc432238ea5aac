"""JSON answers, validated where they come in."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from predictors.feeds.condition import Condition, Trouble
from predictors.feeds.web import Ask, get


class Shape(BaseModel):
    """What an answer must hold; more is ignored, other types are not converted."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


Model = TypeVar("Model", bound=Shape)


def get_json(ask: Ask, shape: type[Model]) -> Model | Trouble:
    """Return the answer in its shape."""
    body = get(ask)
    return body if isinstance(body, Trouble) else read_json(ask.source, body, shape)


def read_json(source: str, body: bytes, shape: type[Model]) -> Model | Trouble:
    """Return the text in its shape; what is wrong with it is said without repeating the text."""
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        page = body.lstrip()[:1] == b"<"
        detail = "a page instead of data" if page else f"{place}: {first['msg']}" if place else "no JSON"
        return Trouble(Condition.GARBAGE, source, detail)
