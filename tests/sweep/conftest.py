import pytest

from tests.helpers.small_runs import save_table


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    return save_table(tmp_path_factory.mktemp("data") / "table.npz")
