"""The document, tried as a machine reads it: no 500, no answer that it does not tell of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from srv.http.rest.openapi import document
from srv.http.rest.table import ROUTES
from tests.rest.tools import Rest
from tests.support.daemon import Daemon, serving

EXAMPLES = 12
WANTED = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
)
"""Not `positive_data_acceptance`: that a folder is a repo, a secret none, and a time one that
exists is more than a schema can say. Not `unsupported_method`: TRACE never gets past the front.
"""

DOCUMENT: Any = document(ROUTES)
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(operation_id="followSession")


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of its own, with a repo and a session that examples hit now and then."""
    folder = tmp_path_factory.mktemp("tried")
    environ = {"AGENT_WORKSPACE_ROOT": str(folder)}
    config = {"sessions_max": 100_000}
    with serving(folder / "data", config=config, environ=environ) as daemon:
        rest = Rest(daemon)
        assert rest.session(rest.repo(Path(folder)))
        yield daemon
        assert daemon.end() == 0
        assert [each for each in daemon.events() if each["level"] == "error"] == []


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
    phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_call_answers_as_the_document_says(case: Any, tried: Daemon) -> None:
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{tried.port}",
        headers={"Authorization": f"Bearer {tried.token}"},
        checks=list(WANTED),
    )
