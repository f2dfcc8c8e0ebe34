"""Requests that the OpenAPI document allows, or forbids: no 5xx, and responses as the document states.

Covers: server.schemas.
"""

import subprocess
import sys
from pathlib import Path

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
)  # fmt: skip


def test_responses_keep_the_contract(server, tmp_path):
    """schemathesis as its own command: its pytest plugin does not support the newest pytest."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json",
        "--max-examples", "12",
        "--checks", ",".join(CHECKS), "--seed", "1", "--generation-database", "none", "--no-color",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
    assert server.client.get("/ready").status_code == 200
