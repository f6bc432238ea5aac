"""The files that a person writes in TOML: their tables as pydantic models, and one function for all that is wrong.

A model names its keys, their types and what they may hold; texts with units are read as in the settings. An error is
one line, `file: key: what is wrong`, and its hint is what to write instead.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from offpeak.errors import BadInput
from offpeak.settings.kinds import BOOL, DURATION, POWER, number
from offpeak.text import did_you_mean

Key = str | int
QUOTES = 'write it in quotes: "..."'
Built = TypeVar("Built")


class WrongEntry(ValueError):
    """What is wrong with an entry, which is `key` below the present one, and what to write instead."""

    def __init__(self, what: str, *key: Key, hint: str) -> None:
        super().__init__(what)
        self.hint, self.key = hint, key


class TableModel(BaseModel):
    """A table of a file. It has no other keys than its fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Description(TableModel):
    """A whole file: what it describes, such as "a node class", examples of values, and the page that explains it."""

    noun: ClassVar[str]
    examples: ClassVar[Mapping[str, str]] = {}
    page: ClassVar[str] = "the reference pages show every key of such a file"
    error: ClassVar[type[BadInput]] = BadInput

    @classmethod
    def parse(cls, text: bytes, file: str, build: Callable[[Self], Built]) -> Built:
        """Return what `build` makes of the file's tables. Raises `error` with file, key and hint for what is wrong."""
        with cls.problems_in(file):
            return build(cls.model_validate(_parse_toml(text, next(iter(cls.examples.items()), ("a", '"b"')))))

    @classmethod
    @contextmanager
    def problems_in(cls, place: str) -> Iterator[None]:
        """Raise `error` with the place, the key and a hint for what is wrong with tables that are read meanwhile."""
        try:
            yield
            return
        except WrongEntry as problem:
            what, hint = _line(problem.key, problem), problem.hint
        except ValidationError as invalid:
            problems = invalid.errors()
            # A key in a wrong spelling is missing, too: what is written says more.
            unknown = (problem for problem in problems if problem["type"] == "extra_forbidden")
            what, hint = _explain(next(unknown, problems[0]), cls)
        raise cls.error(f"{place}: {what}", hint=hint)


def read_by(parse: Callable[[Any], object]) -> BeforeValidator:
    """Return a validator that parses an entry, such as a text with a unit."""

    def read(written: object) -> object:
        try:
            return parse(written)
        except BadInput as problem:
            raise WrongEntry(str(problem), hint=problem.hint) from None

    return BeforeValidator(read)


def refuse(what: str, *, hint: str) -> NoReturn:
    """Raise BadInput."""
    raise BadInput(what, hint=hint)


def text_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that parses a text."""

    def read(written: object) -> object:
        return parse(written) if isinstance(written, str) else refuse(f"{written!r} is not text", hint=QUOTES)

    return read_by(read)


Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Text = Annotated[str, text_by(lambda text: text)]
Flag = Annotated[bool, read_by(BOOL.read)]
Duration = Annotated[int, read_by(DURATION.read)]
Power = Annotated[float, read_by(POWER.read)]
Share = Annotated[float, read_by(number(0, 1).read)]


def _parse_toml(text: bytes, example: tuple[str, str]) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise WrongEntry("is not UTF-8 text", hint="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        hint = f"the file is TOML: text stands in quotes, as in {' = '.join(example)}"
        if "twice" in str(problem) or "overwrite" in str(problem):
            hint = "a name stands for one table or value: rename one of the two, or join them"
        raise WrongEntry(f"is not TOML: {problem}", hint=hint) from None


def _explain(problem: ErrorDetails, shape: type[Description]) -> tuple[str, str]:
    """Return the line and the hint for an error of pydantic."""
    place, written = problem["loc"], problem["input"]
    name = str(place[-1]) if place else ""
    if problem["type"] == "value_error" and isinstance(cause := problem["ctx"]["error"], WrongEntry):
        hint = f"write it in quotes: {_example(shape, place)}" if cause.hint == QUOTES else cause.hint
        return _line((*place, *cause.key), cause), hint
    if problem["type"] == "extra_forbidden":
        return _line(place, f"is not a key of {shape.noun}"), did_you_mean(name, _keys(shape, place[:-1]))
    if problem["type"] == "missing":
        return _line(place[:-1], f"{name} is missing"), f"add {_example(shape, place)}"
    if problem["type"] in ("model_type", "dict_type"):
        return _line(place, "is not a table"), f"write {_example(shape, place)}" if place else shape.page
    is_list = problem["type"] in ("list_type", "tuple_type")
    what = f"{written!r} is not a list" if is_list else f"{written!r}: {problem['msg'].lower()}"
    return _line(place, what), f"write {_example(shape, place)}" if name in shape.examples else shape.page


def _line(place: tuple[Key, ...], what: object) -> str:
    """Return what is wrong with its place: ("machines", 0, "bmc") is written machines[1].bmc."""
    key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return f"{key}: {what}" if key else str(what)


def _example(shape: type[Description], place: tuple[Key, ...]) -> str:
    """Return how the entry is written: its example, or a table and the keys that it needs."""
    name = str(place[-1])
    keys, fields = _keys(shape, place), _fields(shape, place)
    if name in shape.examples or not keys:
        return f"{name} = " + shape.examples.get(name, '"..."')
    needed = [key for key, field in zip(keys, fields.values(), strict=True) if field.is_required()] or keys
    return f"[{name}], and below it {', '.join(needed)}"


def _keys(shape: type[BaseModel], place: tuple[Key, ...]) -> list[str]:
    return [str(field.alias or name) for name, field in _fields(shape, place).items()]


def _fields(shape: type[BaseModel], place: tuple[Key, ...]) -> dict[str, Any]:
    """Return the fields of the table at `place`: fields of models are followed, names of tables and numbers are not."""
    model: type[BaseModel] | None = shape
    for part in place:
        named = {field.alias or name: field for name, field in model.model_fields.items()} if model else {}
        if part in named:
            model = _inner(named[str(part)].annotation)
    return model.model_fields if model else {}


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner, get_args(annotation))), None)
