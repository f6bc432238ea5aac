"""What `scontrol show config` prints, by its names."""

from plugin.slurm.words import plain


def config_of_text(text: bytes) -> dict[str, str]:
    """Return the configuration of slurmctld; "" for what is not set."""
    lines = (line.partition(" = ") for line in text.decode(errors="replace").splitlines())
    return {name.strip(): plain(value.strip()) for name, sign, value in lines if sign}
