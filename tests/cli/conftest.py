import pytest

from evenstream.cli.main import main
from evenstream.run import compare as compare_module
from evenstream.run.workers import Answer
from tests.helpers.small_runs import save_table


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """An empty working folder, no data but the embedded, and room for long lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENSTREAM_DATA", str(tmp_path / "no-data"))
    monkeypatch.delenv("EVENSTREAM_DATA_MIRROR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    return str(save_table(tmp_path_factory.mktemp("data") / "table.npz"))


@pytest.fixture
def run(capsys):
    """Run a command in this process: exit status, standard output, standard error."""

    def call(*words):
        status = main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


@pytest.fixture
def one_process(monkeypatch):
    """Comparisons make their runs in this process; tests/run has those with real workers."""

    def work_off(jobs, work, n_workers, stop):
        while jobs:
            job = jobs.popleft()
            yield job, Answer(result=work(job, stop))

    monkeypatch.setattr(compare_module, "work_off", work_off)


@pytest.fixture
def learn(run):
    return lambda *words, directory="dir": run("learn", directory, *words)
