"""Checks TOML against the shape of its tables, and explains in one line what is wrong and what to write instead.

Unknown keys are refused, and text with a unit is read as in the settings.
"""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from offpeak.errors import BadInput
from offpeak.model.toml_file import parse_toml
from offpeak.settings.kinds import DURATION, POWER, SettingKind
from offpeak.text import did_you_mean


class TomlTable(BaseModel):
    """A table of a file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read_by(kind: SettingKind) -> BeforeValidator:
    """Return a validator that parses a key's text as that kind of setting."""

    def read(written: object) -> Any:
        try:
            return kind.read(written)
        except BadInput as problem:
            raise PydanticCustomError("kind", "{said}", {"said": str(problem), "hint": problem.hint}) from None

    return BeforeValidator(read)


Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Duration = Annotated[int, read_by(DURATION)]
Power = Annotated[float, read_by(POWER)]

Shape = TypeVar("Shape", bound=BaseModel)
Place = tuple[str | int, ...]
INVENTORY = "the how-to pages show every key of an inventory"


def read_shape(text: bytes, shape: type[Shape], *, file: str, error: type[BadInput], page: str = INVENTORY) -> Shape:
    """Return the values in their shape, else `error` with file, key and hint; `page` explains the keys."""
    parsed = parse_toml(text, file, error=error)
    try:
        return shape.model_validate(parsed)
    except ValidationError as problem:
        message, hint = _explain(problem.errors()[0], shape, page)
        raise error(f"{file}: {message}", hint=hint) from None


def _explain(problem: ErrorDetails, shape: type[BaseModel], page: str) -> tuple[str, str]:
    place = problem["loc"]
    key = key_text(place)
    if problem["type"] == "extra_forbidden":
        return f"{key}: is no key", did_you_mean(str(place[-1]), _keys(shape, place[:-1]))
    if problem["type"] == "missing":
        return f"{key}: is missing", f"add {place[-1]} = ..."
    if problem["type"] == "kind":
        return f"{key}: {problem['msg']}", str(problem["ctx"]["hint"])
    return f"{key}: {problem['input']!r}: {problem['msg'].lower()}", page


def key_text(place: Place) -> str:
    """Return a place as text, ("machines", 0, "bmc") as machines[1].bmc."""
    text = ""
    for part in place:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _keys(shape: type[BaseModel], place: Place) -> Sequence[str]:
    """Return the keys of the table at `place`: fields of shapes are followed, names of tables and numbers are not."""
    for part in place:
        if part in shape.model_fields:
            shape = _inner(shape.model_fields[str(part)].annotation) or shape
    return tuple(shape.model_fields)


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner, get_args(annotation))), None)
