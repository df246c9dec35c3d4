"""Files a user may edit: each mistake is one message with file and line, the value and what is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rackproof import yamlfile
from rackproof.errors import InputError, RackproofError

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "schema": {"const": 1},
        "size": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["node", "rdma"]},
        "version": {"type": "string", "pattern": r"^[0-9]+\Z", "description": "digits"},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "either": {"type": ["string", "null"]},
        "inner": {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "integer"}},
    },
}


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "site.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "line", "problem", "accepted"),
    [
        ("name: a\nnmae: b\n", 2, "unknown key 'nmae' in the file", "code, either, inner, kind, list, name, schema, size, version"),
        ("name: a\ninner:\n  a: 1\n  b: 2\n", 4, "unknown key 'b' in inner", "a"),
        ("name: a\n1: b\n", 2, "unknown key 1 in the file", "name"),
        ("name: a\non: b\n", 2, "unknown key True in the file", "name"),
        ("size: 1\n", 1, "the file lacks name", "name"),
        ("# c\n\nname: 5\n", 3, "name is 5, a int", "string"),
        ("name: 2026-01-01\n", 1, "name is datetime.date(2026, 1, 1), a date", "string"),
        ("name: a\nsize: '3'\n", 2, "size is '3', a str", "integer"),
        ("name: a\nsize: true\n", 2, "size is True, a bool", "integer"),
        ("name: a\neither: 5\n", 2, "either is 5, a int", "string or null"),
        ("name: a\nsize: 0\n", 2, "size: 0 is less than the minimum of 1", ""),
        ("name: a\nkind: rmda\n", 2, "kind is 'rmda'", "node, rdma"),
        ("name: a\nschema: 2\n", 2, "schema is 2", "1"),
        ("name: a\nversion: '58O'\n", 2, "version is '58O'", "digits"),
        ("name: a\nversion: |\n  580\n", 2, "version is '580\\n'", "digits"),
        ("name: a\ncode: A\n", 2, "code is 'A'", "text that matches ^[a-z]+$"),
        ("name: a\nlist:\n  - 1\n  - x\n", 4, "list.1 is 'x', a str", "integer"),
        ("name: a\nlist: [1,\n  2, x]\n", 3, "list.2 is 'x', a str", "integer"),
        ("name: a\ninner: []\n", 2, "inner is [], a list", "object"),
        ("name: a\nsize: 1\nname: b\n", 3, "key 'name' is written twice", "each key once"),
        ("name: a\ninner: {a: 1, a: 2}\n", 2, "key 'a' is written twice", "each key once"),
        ("name: a\n? [x, y]\n: 1\n", 2, "a key is a list or a mapping", "a word"),
        ("name: a\n? {x: y}\n: 1\n", 2, "a key is a list or a mapping", "a word"),
        ("# c\n- a\n- b\n", 2, "holds a list", "a mapping of keys to values"),
        ("just text\n", 1, "holds a str", "a mapping of keys to values"),
        ("name: a\nsize: [1\n", 3, "not valid YAML: ", ""),
        ("name: a\n\tsize: 1\n", 2, "not valid YAML: found ", ""),
        ("name: a\n---\nname: b\n", 2, "not valid YAML: but found another document", ""),
        ("name: a\nsize: *none\n", 2, "not valid YAML: found undefined alias", ""),
        ("name: a\nsize: !!python/object:os.system x\n", 2, "not valid YAML: could not determine a constructor", ""),
    ],
)  # fmt: skip
def test_each_mistake_has_its_line(tmp_path: Path, text: str, line: int, problem: str, accepted: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        yamlfile.load(path, SCHEMA)
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.problem.startswith(problem)
    assert accepted in caught.value.accepted
    assert str(caught.value).startswith(f"{path}:{line}: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"name: \xff\n", "cannot be read: 'utf-8' codec can't decode byte 0xff"),
        (b"name: a\0b\n", "not valid YAML: unacceptable character"),
        (b"name: \x1b[31m\n", "not valid YAML: unacceptable character"),
        (b"name: 2026-13-45\n", "not valid YAML: month must be in 1..12"),
        (b"a: &a [*a]\n", "not usable YAML: nested too deeply"),
        (b"a: &a {b: *a}\n", "not usable YAML: nested too deeply"),
        (b"a: " + b"[" * 5000, "not usable YAML: nested too deeply"),
    ],
)
def test_mistakes_without_a_line(tmp_path: Path, text: bytes, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=re.escape(f"{path}: {problem}")):
        yamlfile.load(path, SCHEMA)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        yamlfile.load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        yamlfile.load(tmp_path)
    with pytest.raises(RackproofError):
        yamlfile.load(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n", "---\n", "{}\n"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert yamlfile.load(path).data == {}
    with pytest.raises(InputError, match=r"site\.yaml(:[12])?: the file lacks name\n  accepted: name"):
        yamlfile.load(path, SCHEMA)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert yamlfile.load(write(tmp_path, b"\xef\xbb\xbfname: a\n"), SCHEMA).data == {"name": "a"}


def test_lines_of_values(tmp_path: Path) -> None:
    text = "name: a\n\ninner:\n  # why\n  a: 1\nlist:\n  - 1\n  -\n    2\nlong: >\n  text\n  more\nflow: {x: 1,\n  y: [2]}\n7: b\n"
    file = yamlfile.load(write(tmp_path, text))
    lines = {keys: file.lines[keys] for keys in file.lines if keys}
    assert lines == {
        ("name",): 1, ("inner",): 3, ("inner", "a"): 5, ("list",): 6, ("list", 0): 7, ("list", 1): 9, ("long",): 10,
        ("flow",): 13, ("flow", "x"): 13, ("flow", "y"): 14, ("flow", "y", 0): 14, (7,): 15,
    }  # fmt: skip
    assert file.where("inner", "a") == f"{file.path}:5"
    assert file.where("inner", "a", "deeper", 3) == f"{file.path}:5"
    assert file.where("nowhere") == f"{file.path}:1"


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    text = """\
base: &base
  a: 1
  b: {x: 1}
copy: *base
more:
  <<: *base
  a: 2
both:
  <<: [{c: 3}, *base]
"""
    file = yamlfile.load(write(tmp_path, text))
    assert file.data["copy"] == {"a": 1, "b": {"x": 1}}
    assert file.data["more"] == {"a": 2, "b": {"x": 1}}
    assert file.data["both"] == {"a": 1, "b": {"x": 1}, "c": 3}
    assert file.lines["copy",] == 4
    assert file.lines["copy", "a"] == 2
    assert file.lines["more", "a"] == 7  # its own
    assert file.lines["more", "b"] == 3  # where a change would have to be made
    assert file.lines["more", "b", "x"] == 3
    assert file.lines["both", "c"] == 9
    assert file.lines["both", "a"] == 2
