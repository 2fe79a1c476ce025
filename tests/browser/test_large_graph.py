"""A graph of 300 operators in a real browser: it is drawn once, nothing overlaps, and every operator can be reached."""

from __future__ import annotations

import logging

from tests.browser.conftest import Served, visiting

_LOG = logging.getLogger(__name__)
STREAM = """
CREATE STREAM s{n} (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at SKEW 100 MILLISECONDS
  FROM GENERATOR (rate 5, seed {n}, col.k 'uniform(1, 9)', col.v 'uniform(0, 100)');
"""
QUERY = """
CREATE QUERY q{n} AS SELECT k, avg(v) AS v, count(*) AS n, window_end
  FROM s{stream} [RANGE {size} SECONDS] WHERE v > {n} GROUP BY k;
"""
QUERIES, STREAMS = 60, 4
#: Counts what workers are asked for.
COUNT = """() => {
  window.jobs = 0;
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (...all) { window.jobs += 1; return post.apply(this, all) };
}"""
#: How many boxes overlap.
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("svg [data-node] .box")].map((box) => box.getBoundingClientRect());
  let found = 0;
  for (const [number, a] of boxes.entries())
    for (const b of boxes.slice(number + 1))
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) found += 1;
  return found;
}"""
#: Scroll for a second; return the frames that were drawn.
FRAMES = """() => new Promise((done) => {
  const frame = document.querySelector(".frame");
  let frames = 0;
  const until = performance.now() + 1000;
  const next = () => {
    frame.scrollTop += 7;
    frames += 1;
    if (performance.now() < until) requestAnimationFrame(next); else done(frames);
  };
  requestAnimationFrame(next);
})"""


def test_three_hundred_operators_are_drawn_once_and_can_be_reached(chromium, tmp_path):
    script = "".join(STREAM.format(n=n) for n in range(STREAMS))
    script += "".join(QUERY.format(n=n, stream=n % STREAMS, size=1 + n // 4) for n in range(QUERIES))
    served = Served(tmp_path, script)
    try:
        with visiting(chromium, served) as visitor:
            page = visitor.page
            visitor.enter()
            # the layout is computed by a worker: count what it is asked for
            page.evaluate(COUNT)
            began = page.evaluate("performance.now()")
            visitor.go("/graph")
            page.wait_for_selector("svg[aria-label=Operators] [data-node]")
            took = page.evaluate("performance.now()") - began
            nodes = page.locator("svg[aria-label=Operators] [data-node]")
            count = nodes.count()
            assert count >= 300
            assert page.evaluate(OVERLAPS) == 0
            # figures change with each beat; places do not
            batch, jobs = visitor.batch(), page.evaluate("window.jobs")
            visitor.until("n => Number(document.querySelector('[data-batch]').dataset.batch) > n + 3", batch)
            assert page.evaluate("window.jobs") <= jobs + 2, "places are computed with each beat"
            frames = page.evaluate(FRAMES)
            _LOG.info("%d operators in %.0f ms, %d frames in a second while it moves", count, took, frames)
            assert page.evaluate("document.querySelectorAll('svg [data-node][tabindex=\"0\"]').length") == count
            # one query is a small picture; what is quiet can be hidden
            page.select_option("select:has(option[value=q7])", "q7")
            page.wait_for_function("() => document.querySelectorAll('svg [data-node]').length < 12")
            assert page.evaluate(OVERLAPS) == 0
    finally:
        served.stop()
