"""What the scores say is what they say."""

import math

import pytest
from scipy.stats import ttest_rel

from experiments.measured import measured
from experiments.results import append
from experiments.tables import read_table
from experiments.verdicts import Difference, against_rivals, over_all_cases, paired, what_parts_bring
from tests.experiments.lines import line


def of(folder, table, network, scores):
    """The table with these results: row → (Macro-F1, Micro-F1) of each seed."""
    plan = read_table(table)
    for run in plan.runs():
        if run.network.name == network and run.seed < len(scores.get(run.row.name, ())):
            append(table, line(run, *scores[run.row.name][run.seed]), folder)
    return measured(plan, folder)


def test_saft_is_compared_with_the_best_rival_of_each_score_paired_over_seeds(tmp_path):
    scores = {
        "bert": [(50.0, 60.0), (52.0, 61.0)],
        "edgeformers": [(55.0, 50.0), (54.0, 50.0)],
        "saft": [(56.0, 62.0), (58.0, 62.0)],
    }
    ((who, macro, micro),) = against_rivals(of(tmp_path, "classification_large", "naver_movies", scores))
    assert who == "naver_movies: SAFT"
    assert macro == f"+2.50 ± 2.12 against Edgeformers, p = {ttest_rel([56, 58], [55, 54]).pvalue:.3f}"
    assert micro.startswith("+1.50 ± 0.71 against BERT, p = ")


def test_where_saft_as_printed_loses_it_is_said_so(tmp_path):
    scores = {"tfidf": [(50.0, 60.0)], "saft_lga": [(40.0, 61.0)], "saft": [(56.0, 62.0)]}
    ours, printed = against_rivals(of(tmp_path, "classification_large", "naver_movies", scores))  # GAU was not run
    assert ours == ["naver_movies: SAFT", "+6.00 against TF-IDF", "+2.00 against TF-IDF"]
    assert printed[0] == "naver_movies: SAFT (LGA), as printed"
    assert printed[1:] == ["−10.00 against TF-IDF", "+1.00 against TF-IDF"]


def test_without_a_rival_or_a_seed_in_common_nothing_is_said(tmp_path):
    one = of(tmp_path, "classification_large", "naver_movies", {"saft": [(56.0, 62.0)], "saft_lga": [(40.0, 61.0)]})
    assert against_rivals(one) == []
    one.cells["naver_movies", "bert"] = {7: one.cells["naver_movies", "saft"][0]}
    assert against_rivals(one)[0][1:] == ["–", "–"]


def test_a_preset_of_saft_is_no_rival(tmp_path):
    scores = {"tfidf": [(50.0, 60.0)], "saft_fast": [(57.0, 63.0)], "saft": [(56.0, 62.0)]}
    for found in against_rivals(of(tmp_path, "cases", "qatar_living", scores)):
        assert found[1:] == ["+6.00 against TF-IDF", "+2.00 against TF-IDF"]


def test_the_best_rival_is_the_one_that_is_best_on_the_splits_that_saft_has_too(tmp_path):
    scores = {"bert": [(50.0, 60.0), (90.0, 90.0)], "edgeformers": [(55.0, 61.0)], "saft": [(56.0, 62.0)]}
    ((_, macro, _),) = against_rivals(of(tmp_path, "classification_large", "naver_movies", scores))
    assert macro == "+1.00 against Edgeformers"


def test_cases_are_counted_by_share_of_labels_and_altogether(tmp_path):
    for network, ours in (("qatar_living", (56.0, 62.0)), ("catalyst_f6f7", (49.5, 70.0))):
        scores = {"ngrams_labels": [(48.0, 61.0)], "bert": [(50.0, 61.5)], "saft": [ours]}
        one = of(tmp_path, "cases", network, scores)
    *by_share, altogether = over_all_cases(one)
    assert by_share == [[share, "1 of 2", "2 of 2", "0.50 / 0.00", "+4.75"] for share in ("70%", "10%", "2%")]
    assert altogether == ["all", "3 of 6", "6 of 6", "0.50 / 0.00", "+4.75"]


def test_pairs_are_made_of_seeds_that_both_have():
    assert paired({0: 1.0, 1: 5.0}, {1: 3.0, 2: 9.0}).mean == 2.0
    assert math.isnan(paired({0: 1.0}, {1: 3.0}).mean)
    assert paired({0: 1.0, 1: 2.0}, {0: 0.0, 1: 1.0}) == Difference((1.0, 1.0))


def test_chance_is_that_of_a_paired_t_test_also_where_all_splits_agree():
    ours, theirs = [70.0, 71.0, 74.0], [69.0, 68.0, 72.0]
    found = paired(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert found.p() == pytest.approx(ttest_rel(ours, theirs).pvalue)
    assert found.p("greater") == pytest.approx(ttest_rel(ours, theirs, alternative="greater").pvalue)
    assert [Difference((change,) * 3).p() for change in (1.0, 0.0, -1.0)] == [0.0, 1.0, 0.0]
    assert [Difference((change,) * 3).p("greater") for change in (1.0, 0.0, -1.0)] == [0.0, 1.0, 1.0]
    assert math.isnan(Difference((1.0,)).p())


NOTHING = "brings nothing that chance does not"
WHOLE = [(70.0, 70.0), (71.0, 72.0), (72.0, 71.0)]


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ([(68.0, 70.0), (69.0, 72.0), (70.0, 71.0)], "helps"),  # 2 ± 0 in Macro-F1
        ([(68.0, 70.0), (67.0, 72.0), (69.0, 71.0)], "helps"),  # 3 ± 1, p = 0.018
        ([(69.0, 70.0), (67.0, 72.0), (70.0, 71.0)], NOTHING),  # 2.3 ± 1.5, p = 0.059: more than its splits differ
        ([(68.0, 71.0), (73.0, 70.0), (72.0, 71.0)], NOTHING),  # 0 ± 2: now this, now that
        ([(72.0, 71.0), (73.0, 74.0), (74.0, 73.0)], NOTHING),  # better without
        ([(60.0, 60.0), (60.0, 60.0)], "too few splits to tell"),
    ],
)
def test_a_part_helps_where_chance_would_hardly_bring_as_much(without, expected, tmp_path):
    scores = {"gau_full": WHOLE, "gau_without_distance": without}
    lines = what_parts_bring(of(tmp_path, "ablation", "rotten_tomatoes", scores))
    assert [line[0] for line in lines] == ["SAFT (GAU), without distance"]
    assert lines[0][-1] == expected


def test_a_part_that_helps_on_one_network_of_two_is_said_to_help_there(tmp_path):
    for network, without in (("rotten_tomatoes", [(60.0, 60.0)] * 3), ("rent_the_runway_fit", WHOLE)):
        one = of(tmp_path, "ablation", network, {"gau_full": WHOLE, "gau_without_centrality": without})
    (found,) = what_parts_bring(one)
    assert found[1] == "+0.00 ± 0.00 / +0.00 ± 0.00"
    assert found[2] == "+11.00 ± 1.00 / +11.00 ± 1.00"
    assert found[-1] == "helps on rotten_tomatoes"


def test_a_part_may_help_on_all_networks_together_though_no_single_one_can_tell(tmp_path):
    without = [(69.0, 70.0), (67.0, 72.0), (70.0, 71.0)]  # p = 0.059 by itself
    for network in ("rotten_tomatoes", "rent_the_runway_fit"):
        one = of(tmp_path, "ablation", network, {"gau_full": WHOLE, "gau_without_distance": without})
    assert what_parts_bring(one)[0][-1] == "helps, all networks taken together"
