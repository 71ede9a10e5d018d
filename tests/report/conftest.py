import pytest
from report_samples import make_metrics, write_comparison, write_run


@pytest.fixture
def comparison(tmp_path):
    return write_comparison(tmp_path / "c", {"finetune": 0.0, "er": 0.5, "er-las": 0.85})


@pytest.fixture
def single(tmp_path):
    return write_run(tmp_path / "run", make_metrics("er-las", 7, skill=0.85))
