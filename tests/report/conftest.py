import pytest

from evenstream.report import write_report
from evenstream.report.charts import bars, heatmap, lines, strip, trade_off, value_map
from tests.helpers.report_samples import make_metrics, write_comparison, write_run
from tests.helpers.table_samples import make_experiment, sample_contents

THREE = {"finetune": 0.0, "er": 0.5, "er-las": 0.85}


@pytest.fixture
def no_pictures(monkeypatch):
    """For tests that read the words of a page, most of whose time goes into its pictures."""
    for module in (bars, heatmap, lines, strip, trade_off, value_map):
        monkeypatch.setattr(module, "draw_svg", lambda *_, **__: "<svg></svg>")


@pytest.fixture
def comparison(tmp_path):
    return write_comparison(tmp_path / "c", THREE)


@pytest.fixture
def single(tmp_path):
    return write_run(tmp_path / "run", make_metrics("er-las", 7, skill=0.85))


@pytest.fixture(scope="session")
def small_report(tmp_path_factory):
    """The page of three methods, for tests that only look at it."""
    return write_report(write_comparison(tmp_path_factory.mktemp("small"), THREE))


@pytest.fixture(scope="session")
def large_report(tmp_path_factory):
    """The page of six methods with long names on twenty tasks, only to be looked at."""
    skills = {f"er-las:prior=macro,window={k},temperature=1.{k}": k / 6 for k in range(6)}
    directory = tmp_path_factory.mktemp("large")
    write_comparison(directory, skills, (0, 1), n_tasks=20, classes_per_task=5)
    return write_report(directory)


@pytest.fixture
def experiment(tmp_path):
    return make_experiment(tmp_path / "file")


@pytest.fixture
def contents(tmp_path, experiment):
    return sample_contents(tmp_path / "runs", experiment)
