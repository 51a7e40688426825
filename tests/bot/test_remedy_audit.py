"""The record of remedies: what is done to it afterwards shows."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from bot.store import audit, schema
from bot.store.audit import Entry, head_of, verify
from tests.build import START

TABLE = schema.audit


@pytest.fixture
async def head(store):
    """Five rows, and the head that somebody wrote down then."""

    def work(transaction):
        for number in range(5):
            entry = Entry(START + timedelta(minutes=number), "U0ALICE", f"what {number}", "because", 12, "gpu-07")
            audit.append(transaction.connection, entry)
        return audit.head(transaction.connection)

    return await store.write(work)


async def verified(store, *changes, kept=None):
    def work(transaction):
        for change in changes:
            transaction.connection.execute(change)

    await store.write(work)
    return await store.read(lambda connection: verify(connection, kept))


async def test_a_record_that_nobody_touched_is_whole_and_goes_on(store, head):
    assert await verified(store, kept=head) == (5, [])
    await store.write(lambda transaction: audit.append(transaction.connection, Entry(START, "", "more")))
    assert await verified(store, kept=head) == (6, [])
    assert str(head) == f"5:{head.digits}"
    assert head_of(str(head)) == head


@pytest.mark.parametrize(
    ("values", "row"),
    [({"why": "nothing"}, 3), ({"who": "U0EVE"}, 3), ({"at": START}, 3), ({"remedy": 1}, 3), ({"node": "gpu-08"}, 3)],
)
async def test_a_changed_row_is_found(store, head, values, row):
    _, wrong = await verified(store, sa.update(TABLE).where(TABLE.c.number == row).values(**values))
    assert wrong == [f"row {row} was changed: what 2, {values.get('at', START + timedelta(minutes=2)).isoformat()}"]


async def test_a_row_that_was_changed_together_with_its_hash_is_found(store, head):
    _, wrong = await verified(store, sa.update(TABLE).where(TABLE.c.number == 3).values(why="-", hash="0" * 64))
    assert wrong[-1] == "row 4 does not follow from the row before it: one of them was removed, inserted or changed"


async def test_a_removed_row_is_found(store, head):
    _, wrong = await verified(store, sa.delete(TABLE).where(TABLE.c.number == 2))
    assert wrong[0] == "between row 1 and row 3 rows were removed or inserted"
    assert len(wrong) == 2


async def test_the_first_row_cannot_be_removed_either(store, head):
    _, wrong = await verified(store, sa.delete(TABLE).where(TABLE.c.number == 1))
    assert wrong[0] == "between row 0 and row 2 rows were removed or inserted"


async def test_an_inserted_row_is_found(store, head):
    shift = [sa.update(TABLE).where(TABLE.c.number == number).values(number=number + 1) for number in (5, 4)]
    row = {"at": START, "who": "", "what": "-", "why": "", "remedy": 0, "node": "", "before": "1", "hash": "2"}
    _, wrong = await verified(store, *shift, sa.insert(TABLE).values(number=4, **row))
    assert any("row 4" in one for one in wrong)


async def test_a_tail_that_was_cut_off_shows_against_a_head_that_was_kept(store, head):
    cut = sa.delete(TABLE).where(TABLE.c.number > 3)
    assert await verified(store, cut) == (3, [])  # by itself it is whole
    _, wrong = await verified(store, kept=head)
    assert wrong == ["row 5 is missing: the record ends at row 3, so its tail was cut off"]


async def test_a_tail_that_was_written_anew_shows_against_a_head_that_was_kept(store, head):
    await verified(store, sa.delete(TABLE).where(TABLE.c.number > 4))
    await store.write(lambda transaction: audit.append(transaction.connection, Entry(START, "", "another")))
    _, wrong = await verified(store, kept=head)
    assert wrong == ["row 5 is not the one whose head was kept: the record was written anew"]


@pytest.mark.parametrize("text", ["", "5", "5:", "x:0123456789", "5:short", "5:0123456789abcdeg"])
def test_what_is_no_head_is_refused(text):
    with pytest.raises(ValueError, match="wants a head"):
        head_of(text)
