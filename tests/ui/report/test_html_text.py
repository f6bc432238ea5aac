"""Text never becomes markup."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from offpeak.ui.report.page import HtmlCell, bullets, definitions, paragraph, section, table

HOSTILE = "<script>alert(1)</script>\"'&"


class Reader(HTMLParser):
    """Collects the elements and the text of a piece of HTML."""

    def __init__(self, piece: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.text = ""
        self.feed(piece)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements |= {tag, *(name for name, _ in attrs)}

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(alphabet=st.sampled_from("<>&\"'ab/ =!-"), max_size=30))
def test_any_text_is_read_back_as_it_was(text: str) -> None:
    assert Reader(paragraph(text)).text == text
    assert Reader(paragraph(text)).elements == {"p"}


def test_a_hostile_name_is_only_text_everywhere() -> None:
    cells = (HtmlCell(HOSTILE), HtmlCell(HOSTILE, HOSTILE, HOSTILE))
    pieces = [
        table(HOSTILE, (HOSTILE, HOSTILE), [cells]),
        bullets([HOSTILE]),
        definitions([(HOSTILE, HOSTILE)]),
        section(HOSTILE, paragraph(HOSTILE, css_class="answer")),
    ]
    for piece in pieces:
        assert "script" not in Reader(piece).elements
        assert HOSTILE in Reader(piece).text


def test_a_table_tells_what_its_cells_belong_to() -> None:
    made = table(
        "what it shows",
        ("policy", "cost", "saving"),
        [(HtmlCell("easy"), HtmlCell("1"), HtmlCell("2", "1 to 3", "not significant"))],
    )
    assert "<caption>what it shows</caption>" in made
    assert made.count('<th scope="col"') == 3
    assert '<th scope="row" class="text">easy</th>' in made
    assert "<td>2 <small>(1 to 3)</small> <em>not significant</em></td>" in made
