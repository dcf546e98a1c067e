"""The page about a package: well-formed, escaped, the same each time."""

from html.parser import HTMLParser

from aotpack.render.report import Cell, Listing, Report, Table, render_report

REPORT = Report(
    "a <b>",
    (("input", "x & y"),),
    (Table("Kernels", ("name", "bytes"), ((Cell("k<1>", False), Cell("12", True)),)),),
    (Listing("k", 'if (a < b && c > d) "text" </pre><script>x()</script>'),),
)


def test_what_is_printed_is_escaped() -> None:
    page = render_report(REPORT)
    assert "<script" not in page and page.count("</pre>") == 1
    assert "<h1>a &lt;b&gt;</h1>" in page
    assert '<td>k&lt;1&gt;</td>\n<td class="number">12</td>' in page


def test_a_parser_reads_it_back() -> None:
    class Texts(HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data)

    found: list[str] = []
    Texts().feed(render_report(REPORT))
    assert REPORT.listings[0].text in found and "x & y" in found


def test_it_is_the_same_each_time() -> None:
    assert render_report(REPORT) == render_report(REPORT)
