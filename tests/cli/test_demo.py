from recado.cli import demo as demo_module


def test_the_demo_fits_80_columns_and_says_what_to_try_next(recado, monkeypatch):
    monkeypatch.setattr(demo_module, "ROUNDS", 1)
    run = recado("demo")
    assert run.code == 0
    commands = [line.strip() for line in run.out.splitlines() if line.startswith("  recado ")]
    assert len(commands) == 4
    for line in run.out.splitlines():
        assert len(line.rstrip()) <= 80 or line.strip() in commands
    for words in ("40  subscriptions", "400  events", "matches", "events/s"):
        assert words in run.out


def test_the_demo_in_json_writes_what_match_writes(recado, monkeypatch):
    monkeypatch.setattr(demo_module, "ROUNDS", 1)
    run = recado("demo", "--json")
    assert run.code == 0
    assert run.records[0].keys() == {"event", "subscription"}
    assert len({record["subscription"] for record in run.records}) == 40  # each one is reached by some event
