"""Kernels in C under the sanitizers for addresses, undefined behaviour and threads.

A few models here; ``python -m tools.sanitize`` takes all that the tests have.
"""

import subprocess
from pathlib import Path

import pytest

from aotpack.precompile.host import find_compiler
from aotpack.render.c.kernels import HostFileContext
from aotpack.render.environment import render_template
from tools import sanitize

pytestmark = pytest.mark.usefixtures("as_shipped")

MODELS = (
    *("softmax_middle", "embedding", "column_sum", "attention_mask", "attention_long"),
    *("matmul_prologue", "windows_of_products"),
)


def test_a_choice_of_models_is_clean() -> None:
    """Loops, gathers, split reductions, attention, products; the answers are checked as well."""
    status, words = sanitize.run(["tests.precompile.sanitized", *MODELS])
    assert status == 0, words[-3000:]
    assert all(model in words for model in MODELS)


@pytest.mark.parametrize(
    ("fault", "report"),
    [
        ("overrun", "AddressSanitizer: heap-buffer-overflow"),
        ("overflow", "runtime error: signed integer overflow: 1 + 2147483647"),
    ],
)
def test_a_planted_mistake_is_reported(fault: str, report: str) -> None:
    status, words = sanitize.run(["tests.precompile.planted", fault])
    assert status != 0 and report in words, words[-3000:]


THREADS = """
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { CALLERS = 3, WORKERS = 3, CALLS = 150, ITEMS = 64 };
static aot_pool *pool;

static void squares(const aot_call *call, int64_t first, int64_t last, char *scratch) {
    int64_t *const own = (int64_t *)scratch, *const out = (int64_t *)(uintptr_t)call->cells[0];
    for (int64_t item = first; item < last; item++) own[item] = item * item;
    for (int64_t item = first; item < last; item++) out[item] = own[item];
}

// Until two threads are at it, which makes no order between them.
static void meet(const aot_call *call, int64_t first, int64_t last, char *scratch) {
    static _Atomic int threads;
    atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    while (atomic_load_explicit(&threads, memory_order_relaxed) < 2) sched_yield();
}

static void *work(void *number) {
    aot_work(pool, (uint32_t)(uintptr_t)number);
    return NULL;
}

static void *call(void *number) {
    intptr_t wrong = 0;
    for (int n = 0; n < CALLS; n++) {
        int64_t out[ITEMS] = {0};
        const uint64_t cells[] = {(uintptr_t)out};
        const aot_call here = {pool, cells, NULL, NULL};
        wrong += aot_parallel(&here, ITEMS, 1 + n % 9, 8 * ITEMS << n % 3, squares);
        for (int64_t item = 0; item < ITEMS; item++) wrong += out[item] != item * item;
    }
    return (void *)wrong;
}

int main(void) {
    pthread_t threads[WORKERS + CALLERS];
    void *wrong, *all = NULL;
    pool = aot_open(WORKERS);
    const aot_call first = {pool, NULL, NULL, NULL};
    for (uintptr_t n = 0; n < WORKERS; n++) pthread_create(&threads[n], NULL, work, (void *)n);
    all = (void *)(intptr_t)aot_parallel(&first, ITEMS, 1, 0, meet);
    for (int n = WORKERS; n < WORKERS + CALLERS; n++) pthread_create(&threads[n], NULL, call, NULL);
    for (int n = WORKERS; n < WORKERS + CALLERS; n++) {
        pthread_join(threads[n], &wrong);
        all = wrong ? wrong : all;
    }
    aot_stop(pool);
    for (int n = 0; n < WORKERS; n++) pthread_join(threads[n], NULL);
    aot_close(pool);
    puts(all ? "wrong" : "right");
    return 0;
}
"""


NEXT = "atomic_fetch_add(&portion->next, pool->chunk)"
PLAIN = "*(int64_t *)&portion->next; *(int64_t *)&portion->next += pool->chunk"


def threads_report(folder: Path, take_items: str) -> str:
    """What a program says whose threads call and work in one pool at once."""
    text = render_template("kernels.c.jinja", HostFileContext("threads", (THREADS,)))
    assert NEXT in text
    (folder / "threads.c").write_text(text.replace(NEXT, take_items))
    flags = "-std=gnu11 -O1 -g -fsanitize=thread -pthread threads.c -o threads -lm".split()
    subprocess.run([*find_compiler(None).command, *flags], cwd=folder, check=True)
    done = subprocess.run([folder / "threads"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_pool_has_no_race(tmp_path: Path) -> None:
    assert threads_report(tmp_path, NEXT) == "right\n"


def test_a_race_is_reported(tmp_path: Path) -> None:
    assert "ThreadSanitizer: data race" in threads_report(tmp_path, PLAIN)
