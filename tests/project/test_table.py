"""A list as CSV is streamed whole, and no cell of it is a formula to whoever opens it."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from django.http import StreamingHttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from project.lib import table
from tests import builders
from triggers.models import Event


def read(answer: StreamingHttpResponse) -> list[list[str]]:
    return list(csv.reader(io.StringIO(answer.getvalue().decode())))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_a_cell_that_would_be_a_formula_is_quoted(start):
    answer = table.csv_answer(RequestFactory().get("/"), "list", ["text"], [[f"{start}HYPERLINK(0)"]])
    assert read(answer) == [["text"], [f"'{start}HYPERLINK(0)"]]


@pytest.mark.parametrize("between", [";", "\t", "\r", "\n"])
def test_a_text_holds_no_formula_either_where_a_spreadsheet_splits_it(between):
    answer = table.csv_answer(RequestFactory().get("/"), "list", ["n", "text"], [[7, f"a{between}=HYPERLINK(0)"]])
    assert answer.getvalue().decode() == f'n,text\r\n7,"a{between}\'=HYPERLINK(0)"\r\n'


def test_text_is_always_quoted_and_json_splits_nowhere():
    row = ["a", "a; b", None, -5, {"say": "a;=HYPERLINK(0)"}]
    answer = table.csv_answer(RequestFactory().get("/"), "list", list("abcde"), [row])
    line = answer.getvalue().decode().splitlines()[1]
    assert line.startswith('"a","a; b","",-5,"{')
    assert ";=" not in line
    assert json.loads(next(csv.reader([line]))[4]) == row[4]


def test_numbers_stay_numbers_and_values_are_said_as_in_json():
    moment = datetime(2026, 11, 29, 3, 4, 5, 678000, tzinfo=UTC)
    row = [-5, None, True, moment, {"a": [1, "ü"]}, "one, two", 'say "hi"']
    answer = table.csv_answer(RequestFactory().get("/"), "list", list("abcdefg"), [row])
    said = ["-5", "", "true", "2026-11-29T03:04:05.678Z", '{"a":[1,"ü"]}', "one, two", 'say "hi"']
    assert read(answer)[1] == said


def test_it_is_a_download_no_browser_draws():
    answer = table.csv_answer(RequestFactory().get("/"), "events", ["text"], [])
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="events.csv"'
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.django_db
def test_every_row_is_walked_once_while_others_arrive(monkeypatch):
    monkeypatch.setattr(table, "BATCH", 10)
    first = [builders.event().pk for _ in range(35)]
    walked = []
    for row in table.by_number(Event.objects.all()):
        walked.append(row.pk)
        builders.event()
    assert walked == first[::-1]
    assert [row.pk for row in table.by_number(Event.objects.filter(pk__in=first), most=12)] == first[::-1][:12]


def test_rows_are_read_while_the_file_is_sent(monkeypatch):
    monkeypatch.setattr(table, "BATCH", 10)
    taken = []

    def rows():
        for number in range(100):
            taken.append(number)
            yield [number]

    answer = table.csv_answer(RequestFactory().get("/"), "list", ["n"], rows())
    parts = iter(answer)
    assert next(parts) == b"n\r\n"
    next(parts)
    assert len(taken) == 10


async def test_a_server_of_many_sends_the_same():
    answer = table.csv_answer(AsyncRequestFactory().get("/"), "list", ["n"], ([n] for n in range(1200)))
    assert answer.is_async
    text = b"".join([part async for part in answer]).decode()
    assert text.split() == ["n", *map(str, range(1200))]
