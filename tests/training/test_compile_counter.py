"""Compilations are counted once per shape, and by program."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ragen_jax.training.compile_counter import CompileCounter


def test_one_count_per_shape() -> None:
    @jax.jit
    def counted_program(x: jax.Array) -> jax.Array:
        return x * 3 + 1

    inputs = [jnp.zeros(3), jnp.zeros(5)]
    with CompileCounter() as counter:
        for x in (*inputs, *inputs):
            counted_program(x).block_until_ready()
        assert counter.by_program == {"jit(counted_program)": 2}
        assert counter.count == 2
        assert counter.seconds > 0
    counted_program(jnp.zeros(7))
    assert counter.count == 2
