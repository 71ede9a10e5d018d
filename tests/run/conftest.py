import functools

import pytest

from evenstream.run import environment
from evenstream.run.runner import start_run
from tests.helpers.run_cases import CASES
from tests.helpers.small_runs import outcome, save_images, save_table, small_config


@pytest.fixture(scope="session")
def machine():
    return environment.describe_environment()


@pytest.fixture(scope="module", autouse=True)
def quick(machine):
    """Describe the machine once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "describe_environment", lambda: dict(machine))
        yield


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Data for tests that leave the file as it is."""
    return save_table(tmp_path_factory.mktemp("data") / "table.npz")


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("data") / "images.npz")


@pytest.fixture(scope="session")
def whole(table, images, tmp_path_factory):
    """Uninterrupted runs of each case, made when first needed."""

    @functools.cache
    def make(case):
        options = dict(CASES[case])
        method = options.pop("method", "er-las")
        config = small_config(images if case == "images" else table, method, **options)
        out = tmp_path_factory.mktemp(case) / "run"
        start_run(config, out)
        return config, outcome(out)

    return make
