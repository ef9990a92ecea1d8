"""A page in its two forms."""

from experiments.blocks import Code, Heading, Image, Table, Text, to_html, to_markdown

PAGE = [
    Heading("A & B", 1),
    Text("Some `code` and 1 < 2."),
    Code("recado run <x>"),
    Table(("name", "n"), (("a|b", "1"), ("c", "holds")), (1,)),
    Image("a.svg", "What it shows"),
]


def test_markdown():
    assert to_markdown(PAGE) == (
        "# A & B\n\nSome `code` and 1 < 2.\n\n```\nrecado run <x>\n```\n\n"
        "| name | n |\n| --- | ---: |\n| a\\|b | 1 |\n| c | holds |\n\n![What it shows](a.svg)\n\n*What it shows*\n"
    )


def test_html_is_escaped():
    page = to_html(PAGE, "A & B")
    assert "<title>A &amp; B</title>" in page
    assert "<p>Some <code>code</code> and 1 &lt; 2.</p>" in page
    assert "<pre>recado run &lt;x&gt;</pre>" in page
    assert '<td class="n">1</td>' in page
    assert '<img src="a.svg" alt="What it shows">' in page


def test_a_verdict_gets_its_colour():
    page = to_html([Table(("v",), (("holds",), ("differs",), ("other",)))], "t")
    assert '<td class="holds">holds</td>' in page
    assert '<td class="differs">differs</td>' in page
    assert "<td>other</td>" in page
