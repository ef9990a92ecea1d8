from recado.cli.service_demo import run_service
from recado.store.log import LogReader


def test_nothing_is_lost_though_ana_goes_away_and_bruno_uses_other_words(tmp_path, capsys):
    outcome = run_service(tmp_path / "service", quotes=900)
    for received in (outcome.ana, outcome.bruno, outcome.carla):
        assert received.wanted
        assert received.got.keys() == set(received.wanted)
        assert (received.lost, received.repeated) == (0, 0)
    assert outcome.ana.waited > 0
    assert LogReader(outcome.log).extent().end == 900
    shown = capsys.readouterr().out
    assert "Bruno" in shown
    assert "milliseconds" in shown
