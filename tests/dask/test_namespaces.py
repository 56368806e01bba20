"""Dask over several network namespaces, which act as hosts; skipped where nobody may make them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tests.dask import namespaces


@pytest.mark.slow
def test_hosts_with_networks_and_caches_of_their_own(tmp_path: Path) -> None:
    reason = namespaces.why_impossible()
    if reason:
        pytest.skip(reason)
    said = namespaces.run(2, tmp_path)
    assert "computed on tcp://10.77.0.1 tcp://10.77.0.2" in said, said
    assert all(list((tmp_path / f"cache{number}").glob("*.image")) for number in range(2))
