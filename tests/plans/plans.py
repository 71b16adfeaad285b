"""How the database answers what a door asks: every statement of a call is explained, none may walk a big table."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from tests.plans.rows import BIG, is_postgres

TABLES = {model._meta.db_table for model in BIG}
ALIAS = re.compile(r'"(\w+)" (?:AS )?"?([A-Z]\d+)"?\b')
FEW = 3000  # rows that may be sorted: as many as a page or a batch at most
READS_ALL = ("Sort", "Aggregate", "Hash", "Materialize", "BitmapOr", "BitmapAnd")
VERBS = ("SELECT", "UPDATE", "DELETE", "WITH")


@dataclass
class Plan:
    """How one statement is carried out."""

    sql: str
    text: str
    indexes: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{'; '.join(self.faults)}\n{self.sql[:3000]}\n{self.text}"


def plans_of(call: Callable[[], Any]) -> list[Plan]:
    """The plans of all that `call` asks, each looked at before it is carried out."""
    plans: list[Plan] = []

    def look(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.lstrip().upper().startswith(VERBS):
            plans.append(explained(sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        call()
    return plans


def check(call: Callable[[], Any], *indexes: str) -> None:
    """No statement of `call` walks or sorts a big table, and each of `indexes` is used."""
    plans = plans_of(call)
    bad = [str(plan) for plan in plans if plan.faults]
    assert not bad, "\n\n".join(bad)
    used = {name for plan in plans for name in plan.indexes}
    assert used >= set(indexes), (sorted(set(indexes) - used), sorted(used))


def explained(sql: str, params: Any) -> Plan:
    postgres = is_postgres()
    with closing(connection.create_cursor()) as cursor:
        cursor.execute(f"EXPLAIN {'(FORMAT JSON)' if postgres else 'QUERY PLAN'} {sql}", params)
        rows = cursor.fetchall()
    return explained_by_postgres(sql, rows[0][0]) if postgres else explained_by_sqlite(sql, rows)


def explained_by_sqlite(sql: str, rows: list[tuple[int, int, int, str]]) -> Plan:
    lines = [line for *_, line in rows]
    plan, named = Plan(sql, "\n".join(lines)), {alias: table for table, alias in ALIAS.findall(sql)}
    walks = False
    for line in lines:
        plan.indexes |= set(re.findall(r"USING (?:COVERING )?INDEX (\w+)", line))
        walked = re.match(r"SCAN (\w+)(.*)", line)
        if walked and named.get(walked[1], walked[1]) in TABLES:
            walks = walks or not is_partial(walked[2])
            if is_endless(walked[2], sql, lines):
                plan.faults.append(line)
    if walks and any(line.startswith("USE TEMP B-TREE") for line in lines):
        plan.faults.append("a big table is sorted")
    again = {number for number, _, _, line in rows if line.startswith("CORRELATED")}
    for _, above, _, line in rows:
        if above in again and line == "USE TEMP B-TREE FOR ORDER BY":
            plan.faults.append("rows are sorted anew for each row")
    return plan


def is_endless(how: str, sql: str, lines: list[str]) -> bool:
    """A walk along the order that is wanted ends with the page; a partial index holds only what it is for."""
    ends = "LIMIT" in sql and not any("TEMP B-TREE" in line for line in lines)
    return not (ends or is_partial(how))


def is_partial(how: str) -> bool:
    return any(name in how for name in partial_indexes())


def partial_indexes() -> set[str]:
    return {index.name for model in BIG for index in model._meta.indexes if index.condition is not None}


def explained_by_postgres(sql: str, tree: Any) -> Plan:
    tree = json.loads(tree) if isinstance(tree, str) else tree
    plan = Plan(sql, json.dumps(tree, indent=1)[:6000])
    visit(tree[0]["Plan"], plan)
    return plan


def visit(node: dict[str, Any], plan: Plan, *, ends: bool = False) -> None:
    """`ends`: somebody above stops reading after a page, and nobody in between reads everything first."""
    kind, table = node["Node Type"], node.get("Relation Name", "")
    ends = kind == "Limit" or (ends and kind not in READS_ALL)
    if "Index Name" in node:
        plan.indexes.add(node["Index Name"])
    if kind == "Seq Scan" and table in TABLES and not ends:
        plan.faults.append(f"Seq Scan on {table}")
    children = node.get("Plans", [])
    if kind == "Sort" and children and children[0]["Plan Rows"] > FEW:
        plan.faults.append(f"Sort of {children[0]['Plan Rows']} rows")
    for child in children:
        visit(child, plan, ends=ends)
