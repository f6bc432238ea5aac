"""GUIDs are written as ipmitool writes them."""

import subprocess
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.local_slurm.ipmi_sim import bmc, own_network
from offpeak.power.drivers.ipmi.requests import format_guid

SIXTEEN = st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("44454c4c4200104a8054b4c04f4d3332", "4c4c4544-0042-4a10-8054-b4c04f4d3332"),
        ("a123456789abcdefa123456789abcd01", "01cdab89-6745-23a1-efcd-ab89674523a1"),
        ("4c4c454400424af080f4b4c04f4d3332", "4c4c4544-0042-4af0-80f4-b4c04f4d3332"),
        ("000000000000f0f0f0f0000000000001", "00000000-0000-f0f0-f0f0-000000000001"),
        ("00" * 16, None),
        ("ff" * 16, None),
    ],
    ids=["SMBIOS", "IPMI", "RFC 4122", "no version", "zeros", "ones"],
)
def test_the_order_of_bytes_is_found(answer: str, text: str | None) -> None:
    assert format_guid(bytes.fromhex(answer)) == text


def test_a_dated_version_is_believed_before_an_undated_one() -> None:
    # Created in 2019; backwards it would be a version 5, swapped a version 14.
    dated = UUID("7d3b5f6e-4c1a-11e9-8646-d663bd87305b")
    assert format_guid(dated.bytes[::-1]) == str(dated)


@given(SIXTEEN)
def test_no_byte_is_lost(answer: bytes) -> None:
    text = format_guid(answer)
    if text is not None:
        guid = UUID(text)
        assert text == str(guid)
        assert answer in (guid.bytes, guid.bytes_le, guid.bytes[::-1])


def test_ipmitool_agrees(bmc_commands: Path, tmp_path: Path) -> None:
    answers = (
        "a123456789abcdefa123456789abcd01",
        "4c4c454400424a108054b4c04f4d3332",
        "4c4c454400424af080f4b4c04f4d3332",
        "5b3087bd63d64686e9111a4c6e5f3b7d",
    )
    with own_network() as network:
        for number, sent in enumerate(answers, 1):
            with bmc(tmp_path / str(number), f"{network}.{number}", number, bmc_commands, guid=sent) as made:
                login = ("-H", made.host, "-p", str(made.port), "-U", "admin", "-P", "secret", "-C", "3")
                command = ["ipmitool", "-I", "lanplus", *login, "mc", "guid"]
                reply = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
                assert f": {format_guid(bytes.fromhex(sent))}\n" in reply.lower()
