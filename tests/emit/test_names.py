import pytest

from aotpack.emit.names import import_name, normal_version
from aotpack.errors import UsageError


@pytest.mark.parametrize(
    ("name", "wanted"), [("bert", "bert"), ("BERT-base.v2", "bert_base_v2"), ("a--b", "a_b")]
)
def test_import_names(name: str, wanted: str) -> None:
    assert import_name(name) == wanted


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "begin and end"),
        (".up", "begin and end"),
        ("my net", "it has the character ' '; accepted: ASCII letters"),
        ("../up", "it has the character '/'"),
        ("bért", r"it has the character '\\xe9'"),
        ("2fast", "'2fast' cannot be imported"),
        ("class", "cannot be imported"),
        ("json", "name of another module"),
        ("Transformers", "'transformers' is the name of another module"),
        (
            "NumPy",
            "'numpy' is the name of another module, .*; accepted: any other, such as numpy-m",
        ),
    ],
)
def test_other_names_are_refused(name: str, reason: str) -> None:
    with pytest.raises(
        UsageError, match=f"the name .* is not accepted: .*{reason}.*as name=, .*--name"
    ):
        import_name(name)


def test_versions() -> None:
    assert normal_version("1.0-RC1") == "1.0rc1"
    with pytest.raises(
        UsageError, match="version 'latest' is not accepted; .*as version=, .*--version"
    ):
        normal_version("latest")
