"""What the tables of our TOML files are made of: unknown keys are refused, text with a unit is read as in settings."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError

from offpeak.errors import BadInput
from offpeak.setting_kinds import DURATION, POWER, Kind


class Table(BaseModel):
    """A table of a file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read_by(kind: Kind) -> BeforeValidator:
    """Return what reads a key's text as that kind of setting, and passes on what is wrong with it."""

    def read(written: object) -> Any:
        try:
            return kind.read(written)
        except BadInput as problem:
            raise PydanticCustomError("kind", "{said}", {"said": str(problem), "hint": problem.hint}) from None

    return BeforeValidator(read)


Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Duration = Annotated[int, read_by(DURATION)]
Power = Annotated[float, read_by(POWER)]
