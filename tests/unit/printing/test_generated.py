"""The code that is generated from the protocol is what the protocol says now."""

import subprocess
import sys
from pathlib import Path

import habemus

SOURCE = Path(habemus.__file__).parents[1]
PROTOCOL = Path("habemus/printing/wire/distributed_printing.proto")


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{SOURCE}",
            *outputs,
            str(SOURCE / PROTOCOL),
        ],
        check=True,
    )
    made = sorted((tmp_path / PROTOCOL.parent).iterdir())
    assert [file.name for file in made] == [
        f"{PROTOCOL.stem}_pb2.py",
        f"{PROTOCOL.stem}_pb2.pyi",
        f"{PROTOCOL.stem}_pb2_grpc.py",
    ]
    for file in made:
        committed = SOURCE / PROTOCOL.parent / file.name
        assert committed.read_text() == file.read_text(), (
            f"{file.name} is out of date; run make wire"
        )
