"""Random queries of every shape, many in one deployment on Spark, give what the oracle says."""

import pytest
from tests.spark.oracle_case import compare

from headrace.session import Session


@pytest.mark.parametrize(("buckets", "page", "number"), [(4, 1, 11), (1, 10_000, 12), (3, 7, 13)])
def test_queries_on_spark_agree_with_the_oracle(spark, buckets, page, number, tmp_path):
    with Session(tmp_path, buckets=buckets, page=page) as session:
        compared = compare(session, number)
    assert compared.wrong == []
    assert compared.nonempty >= compared.queries // 3
