"""Labels that come late: tickets for inputs that were predicted."""

import numpy as np
import pandas as pd
import pytest

from evenstream import Frozen, Learner
from evenstream.errors import InputError, LostTicket
from evenstream.tabular import TableEncoder
from evenstream.testing import Backbone, make_learner

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
LABELS = ["ant", "bee"] * 20


def again(learner):
    """The learner as it is after a restart."""
    return Learner.from_bytes(learner.to_bytes(), Backbone())


def test_labels_that_come_late_are_learned_as_if_they_had_come_at_once():
    late, prompt = make_learner("er-las"), make_learner("er-las")
    first, second = late.ask(X[:6]), late.ask(X[6:12])
    assert list(first.labels) == [None] * 6
    for rows, tickets in ((slice(6, 12), second.tickets), (slice(0, 6), first.tickets)):
        prompt.learn(X[rows], LABELS[rows])
        result = late.learn_later(tickets, LABELS[rows])
        assert result.step == prompt.step
    assert {n: v for n, v in late.state().items() if n != "tickets"}.keys() == prompt.state().keys()
    assert (late.predict_proba(X) == prompt.predict_proba(X)).all()
    assert (late.tickets.given, late.tickets.learned, late.tickets.open) == (12, 12, 0)
    assert "0 open of 12 given, 12 learned, 0 expired" in repr(late)


def test_one_ticket_in_any_order_across_a_restart():
    learner = make_learner("er-las")
    learner.learn(X[:6], LABELS[:6])
    tickets = learner.ask(X[6:12]).tickets
    twin = again(learner)
    for each in (learner, twin):
        each.learn_later(tickets[4], "bee")
        each.learn_later([tickets[1], tickets[0]], np.array(["bee", "ant"]))
    assert learner.fingerprint() == twin.fingerprint()
    assert learner.tickets.open == 3


def test_asking_answers_as_predict_does_and_learns_nothing():
    learner = make_learner("er-las")
    learner.learn(X[:6], LABELS[:6])
    before = dict(learner.state())
    answers = learner.ask(X[6:12], priors={"ant": 0.9, "bee": 0.1})
    assert (answers.labels == learner.predict(X[6:12], {"ant": 0.9, "bee": 0.1})).all()
    assert learner.step == 1 and "tickets" not in before


def test_a_lost_ticket_is_refused_by_name_and_never_taken_for_another():
    learner = make_learner("er-las")
    learner.learn(X[:6], LABELS[:6])
    saved = learner.to_bytes()
    (lost,) = learner.ask(X[6:7]).tickets
    back = Learner.from_bytes(saved, Backbone())
    with pytest.raises(LostTicket, match=f"ticket {lost} is unknown here"):
        back.learn_later(lost, "ant")
    (other,) = back.ask(X[7:8]).tickets
    assert other.split("-")[0] == lost.split("-")[0]
    before = back.fingerprint()
    with pytest.raises(LostTicket, match=f"ticket {lost} is unknown here"):
        back.learn_later([other, lost], ["ant", "bee"])
    assert back.fingerprint() == before
    back.learn_later(other, "ant")
    with pytest.raises(LostTicket, match="learned already"):
        back.learn_later(other, "ant")


def test_tickets_expire_by_number_and_by_steps():
    learner = make_learner("er-las")
    learner.limit_tickets(number=4, steps=2)
    first = learner.ask(X[:3]).tickets
    second = learner.ask(X[3:6]).tickets
    assert (learner.tickets.open, learner.tickets.expired) == (4, 2)
    with pytest.raises(LostTicket, match=r"has expired or was learned before.* 2 steps, and 4 at"):
        learner.learn_later(first[0], "ant")
    learner.learn(X[:6], LABELS[:6])
    learner.learn(X[:6], LABELS[:6])
    learner = again(learner)
    learner.learn_later(second[2], "bee")
    assert (learner.tickets.open, learner.tickets.expired) == (0, 5)
    with pytest.raises(InputError, match=r"5 rows, but the limit .* is 4"):
        learner.ask(X[:5])
    for limits in ({"number": 0}, {"steps": 1.5}):
        with pytest.raises(InputError, match="whole number of 1 or more"):
            learner.limit_tickets(**limits)


def test_a_label_that_is_refused_leaves_the_ticket_open():
    learner = make_learner("er-las")
    tickets = learner.ask(X[:6]).tickets
    before = learner.fingerprint()
    for given, labels in (
        (tickets, ["ant"]),
        (tickets[0], 1.5),
        ([tickets[0]] * 2, ["ant", "bee"]),
        ([], []),
        (7, "ant"),
        (["t1"], ["ant"]),
    ):
        with pytest.raises(InputError):
            learner.learn_later(given, labels)
        assert learner.fingerprint() == before
    learner.learn_later(tickets, LABELS[:6])


def test_ids_go_with_tickets_and_forgetting_takes_both():
    learner = make_learner("er-las")
    tickets = learner.ask(X[:6], ids=[1, 1, 2, 2, 3, 3]).tickets
    learner.learn_later(tickets[:3], ["ant", "bee", "ant"])
    edit = learner.forget(ids=[2, 9])
    assert (edit.samples, edit.tickets, edit.missing) == (1, 1, (9,))
    with pytest.raises(LostTicket, match="its row was forgotten"):
        learner.learn_later(tickets[3], "ant")
    assert X[2].tobytes() not in learner.to_bytes() and X[3].tobytes() not in learner.to_bytes()
    assert learner.forget(x=X[4:5], labels=["ant"]).tickets == 1
    assert X[4].tobytes() not in learner.to_bytes()


def test_ids_of_a_question_are_one_for_each_row():
    with pytest.raises(InputError, match="2 rows but 3 ids"):
        make_learner("er-las").ask(X[:2], ids=[1, 2, 3])


def test_texts_and_tables_wait_as_they_were_given():
    def numbers(texts):
        return np.array([[len(text), text.count("a"), 1.0] for text in texts], np.float32)

    def learner():
        return Learner("er-las", Frozen(numbers, then="mlp"), dtype="float32")

    one = learner()
    answers = one.ask(["a", "bb", "aaa"])
    one = Learner.from_bytes(one.to_bytes(), Frozen(numbers, then="mlp"))
    one.learn_later(answers.tickets, ["x", "y", "x"])
    two = learner()
    two.learn(["a", "bb", "aaa"], ["x", "y", "x"])
    assert (one.predict_proba(["aa"]) == two.predict_proba(["aa"])).all()

    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})
    table = Learner("er-las", "mlp")
    with pytest.raises(InputError, match="how columns are read"):
        table.ask(frame)
    table.table = TableEncoder.infer(frame)
    answers = table.ask(frame)
    table.learn_later(answers.tickets[::-1], ["a", "b", "a", "b"])
    assert table.labels == ["a", "b"]


def test_rows_of_another_shape_are_refused_before_anything_is_learned():
    learner = Learner("er-las", "mlp")
    learner.ask(X[:2])
    with pytest.raises(InputError, match="those that wait"):
        learner.ask(X[:2, :3])


def test_damage_to_saved_tickets_is_noticed():
    learner = make_learner("er-las")
    learner.ask(X[:4])
    state = learner.state()
    state["tickets"]["numbers"] = state["tickets"]["numbers"].flip(0)
    with pytest.raises(Exception, match="tickets"):
        Learner.from_state(state, Backbone())
